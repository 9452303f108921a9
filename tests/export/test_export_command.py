"""`tracekit export` and `tracekit view` as a user runs them."""

import errno
import html
import http.client
import json
import os
import signal
import socket
import stat
import subprocess
import sys
import tempfile
import textwrap
from pathlib import Path
from unittest.mock import Mock
from urllib.parse import urlsplit

import pytest
from perfetto_engine import Engine, engine_folder
from traces_by_hand import call, kernel, span

from tracekit.cli.commands import view
from tracekit.errors import StoreError
from tracekit.export import viewer
from tracekit.export.viewer import serving

# Two kernels of one stream overlap, a child ends after its parent, and one kernel lasts no time.
EVENTS = [
    span("cpu_op", "aten::mm", 0, 10, **{"External id": 9007199254740993}),
    call(1, 3, 11),
    span("cpu_op", "crosses", 5, 14),
    call(5.5, 6, 12),
    kernel("gemm <b>", 4, 9.001, 11),
    kernel("gemm <b>", 8, 12, 12),
    kernel("empty", 12, 12, 12),
    {"ph": "i", "s": "t", "name": "mark", "pid": 1, "tid": 1, "ts": 2.5},
    {"ph": "C", "name": "ours", "pid": 1, "tid": 1, "ts": 2, "args": {"a": 1.5, "b": 2}},
]
BASE_NS = 1_700_000_000_000_000_000


@pytest.fixture
def trace_file(tiny_trace):
    return tiny_trace(EVENTS, baseTimeNanoseconds=BASE_NS)


def test_every_event_of_a_small_trace(cli, trace_file, tmp_path):
    engine_folder()
    out = tmp_path / "out.pftrace"
    done = cli("export", "perfetto", trace_file, "-o", out)
    assert (done.exit_code, done.stdout) == (0, "")
    assert "left out" not in done.stderr
    assert done.stderr.startswith(f"{out}: 1 trace, 7 events, ")
    with Engine(out) as engine:
        assert engine.problems() == {}
        rows = engine.rows(
            "SELECT s.name AS name, s.ts AS ts, s.dur AS dur, t.name AS track, "
            "extract_arg(s.arg_set_id, 'debug.event_id') AS event_id FROM slice AS s "
            "JOIN track AS t ON s.track_id = t.id WHERE event_id IS NOT NULL ORDER BY 5"
        )
        assert [(name, ts - BASE_NS, dur, track) for name, ts, dur, track, _ in rows] == [
            ("aten::mm", 0, 10_000, "thread 1"),
            ("cudaLaunchKernel", 1_000, 2_000, "thread 1"),
            ("crosses", 5_000, 9_000, "thread 1"),
            ("cudaLaunchKernel", 5_500, 500, "thread 1"),
            ("gemm <b>", 4_000, 5_001, "stream 7"),
            ("gemm <b>", 8_000, 4_000, "stream 7"),
            ("empty", 12_000, 0, "stream 7"),
            ("mark", 2_500, 0, "thread 1"),
        ]
        # Kernels do not nest, and slices of a lane do not cross.
        assert engine.rows(
            "SELECT max(s.depth) AS depth FROM slice AS s JOIN track AS t ON s.track_id = t.id "
            "WHERE t.name = 'stream 7'"
        ) == [(0,)]
        assert engine.rows(
            "SELECT extract_arg(arg_set_id, 'debug.args.External id') AS id FROM slice "
            "WHERE name = 'aten::mm'"
        ) == [(9007199254740993,)]
        arrows = engine.rows(
            "SELECT extract_arg(a.arg_set_id, 'debug.event_id') AS one, "
            "extract_arg(b.arg_set_id, 'debug.event_id') AS other FROM flow AS f "
            "JOIN slice AS a ON f.slice_out = a.id JOIN slice AS b ON f.slice_in = b.id ORDER BY 2"
        )
        # Others are between an event and its piece of the critical path, which has no event_id.
        assert [arrow for arrow in arrows if None not in arrow] == [(1, 4), (3, 5), (3, 6)]
        assert {one or other for one, other in arrows if None in (one, other)} == {4, 5}
        values = engine.rows(
            "SELECT t.name AS name, c.value AS value FROM counter AS c "
            "JOIN track AS t ON c.track_id = t.id WHERE t.name LIKE 'ours%' ORDER BY 1"
        )
        assert values == [("ours: a", 1.5), ("ours: b", 2.0)]


def test_a_failed_export_is_reported_and_leaves_no_file(cli, trace_file, tmp_path):
    folder = tmp_path / "out"
    folder.mkdir()
    for options, message, exit_code in (
        (["--ranks", "7"], "none of the selected ranks is in the trace", 5),
        (["--steps", "3"], "none of the selected steps is in the trace", 5),
        (["--max-size", "0MB"], "the export is larger than 0 MB", 5),
        (["--from", "later"], "--from: ", 2),
        (["--ranks", "5-3"], "--ranks: ", 2),
        (["--from", "2s", "--to", "1s"], "--to must be after --from", 2),
    ):
        done = cli("export", trace_file, "-o", folder / "x.pftrace", *options)
        assert message in done.stderr
        assert done.exit_code == exit_code
        assert [*folder.iterdir()] == []


def test_missing_parts_of_a_trace_are_reported(cli, tiny_trace, tmp_path):
    whole = json.dumps({"traceEvents": [*EVENTS[:4]]})
    broken = tiny_trace(whole[: whole.rindex("cudaLaunchKernel")], name="broken.json")
    done = cli("export", "perfetto", broken, "-o", tmp_path / "x.pftrace")
    assert done.exit_code == 0
    assert "note: broken.json is cut off: " in done.stderr
    # A trace with launches but no kernels is not a CPU trace.
    assert "note: broken.json: " in done.stderr.partition("cut off")[2]


def test_an_existing_file_is_not_replaced(cli, trace_file, tmp_path):
    out = tmp_path / "x.pftrace"
    out.write_text("mine")
    assert cli("export", trace_file, "-o", out).exit_code == 4
    assert out.read_text() == "mine"
    assert cli("export", trace_file, "-o", out, "--no-args", "--force").exit_code == 0
    assert out.read_bytes()[:1] == b"\n"


# The server


@pytest.fixture
def served(tmp_path, monkeypatch):
    """Return the address of a served trace, at a port that no other test takes."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        monkeypatch.setattr(viewer, "PORT", free.getsockname()[1])
    path = tmp_path / "x.pftrace"
    path.write_bytes(b"trace" * 1000)
    with path.open("rb") as file, serving(file, "a b") as address:
        yield urlsplit(address).fragment.partition("url=")[2].partition("&")[0]


def ask(address, path=None, **headers):
    parts = urlsplit(address)
    connection = http.client.HTTPConnection(parts.netloc, timeout=20)
    connection.request("GET", parts.path if path is None else path, headers=headers)
    answer = connection.getresponse()
    found = answer.status, dict(answer.getheaders()), answer.read()
    connection.close()
    return found


def test_the_trace_is_served_to_the_page_of_the_ui_only(served):
    status, headers, body = ask(served, Origin="https://ui.perfetto.dev")
    assert (status, body) == (200, b"trace" * 1000)
    assert headers["Access-Control-Allow-Origin"] == "https://ui.perfetto.dev"
    for path in ("/", "/trace.pftrace", "/x/../../../etc/passwd", urlsplit(served).path + "/"):
        assert ask(served, path)[::2] == (404, b""), path
    assert ask(served, Host="attacker.example")[0] == 403
    assert ask(served, Host="localhost:9001")[0] == 403
    assert ask(served, Origin="https://attacker.example")[0] == 403


def test_the_next_export_removes_files_of_a_killed_one(trace_file, tmp_path, cli):
    (folder := tmp_path / "out").mkdir()
    # It kills itself in the middle of the file.
    script = """
        import os, signal, sys
        from pathlib import Path
        from tracekit.cli.commands.export import written_atomically
        with written_atomically(Path(sys.argv[1]), force=False, max_bytes=100) as out:
            out.write(b"half")
            os.kill(os.getpid(), signal.SIGKILL)
    """
    subprocess.run([sys.executable, "-c", textwrap.dedent(script), folder / "a.x"], check=False)
    (left,) = folder.iterdir()
    assert left.read_bytes() == b"half"
    done = cli("export", trace_file, "-o", folder / "b.pftrace")
    assert done.exit_code == 0
    assert [path.name for path in folder.iterdir()] == ["b.pftrace"]
    umask = os.umask(0)
    os.umask(umask)
    assert stat.S_IMODE((folder / "b.pftrace").stat().st_mode) == 0o666 & ~umask


def test_the_address_is_not_in_the_command_line_of_the_browser(trace_file, tmp_path):
    (temporary := tmp_path / "temporary").mkdir()
    seen = tmp_path / "seen"
    (browser := tmp_path / "browser").write_text(
        f"""#!{sys.executable}
import os, pathlib, sys, urllib.request
page = pathlib.Path(urllib.request.url2pathname(sys.argv[1].removeprefix("file://")))
modes = oct(page.stat().st_mode), oct(page.parent.stat().st_mode)
pathlib.Path({str(seen)!r}).write_text("\\n".join((sys.argv[1], *modes, page.read_text())))
"""
    )
    browser.chmod(0o700)
    process = subprocess.Popen(
        [str(Path(sys.executable).with_name("tracekit")), "view", trace_file],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "TMPDIR": str(temporary), "TRACEKIT_CACHE_DIR": str(tmp_path / "cache"),
             "BROWSER": f"{browser} %s"},
    )  # fmt: skip
    address = process.stdout.readline().strip()
    while "Ctrl-C" not in process.stderr.readline():
        pass
    assert ask(urlsplit(address).fragment.partition("url=")[2].partition("&")[0])[0] == 200
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=60)
    assert process.returncode == 0
    opened, page_mode, folder_mode, page = seen.read_text().split("\n", 3)
    assert opened.startswith("file:///")
    assert urlsplit(address).fragment.split("/")[4] not in opened
    assert html.escape(address) in page
    assert (page_mode[-3:], folder_mode[-3:]) == ("600", "700")
    assert [*temporary.iterdir()] == []


def test_the_title_has_no_signature(tmp_path):
    assert view._title(["https://b/run/x.json.gz?sig=s3cr3t", "y"]) == "x.json.gz and 1 more"
    assert view._title([str(tmp_path / "x.json")]) == "x.json"


def test_view_names_a_temporary_folder_that_is_full(cli, trace_file, tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    full = Mock(side_effect=OSError(errno.ENOSPC, os.strerror(errno.ENOSPC)))
    monkeypatch.setattr("tracekit.export.perfetto.export_perfetto", full)
    done = cli("view", trace_file, "--ui", "http://x", is_here=True)
    assert done.exit_code == StoreError.exit_code
    assert done.stderr.startswith(f"error: {tmp_path}: ")
    assert "TMPDIR" in done.stderr
