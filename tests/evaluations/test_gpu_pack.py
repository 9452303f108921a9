"""The folder for a GPU host, and the returned results."""

import json
import os
import shutil
import subprocess
import sys
import sysconfig
import tarfile
from pathlib import Path

import pytest
from gpu_pack import carry
from processes import finished

pytestmark = [
    pytest.mark.nightly("packs the GPU tests and runs them in another environment"),
    pytest.mark.skipif(not sys.platform.startswith("linux"), reason="looks for processes in /proc"),
]
# Variables that would allow access to an index.
_WITHOUT_NETWORK = {
    "PIP_NO_INDEX": "1",
    "PIP_CONFIG_FILE": os.devnull,
    "http_proxy": "http://127.0.0.1:9",
    "https_proxy": "http://127.0.0.1:9",
    "OMP_NUM_THREADS": "1",
}


@pytest.mark.skipif(
    os.environ.get("TRACEKIT_GPU_TESTS_ON_CPU") != "all",
    reason="a minute of packing: TRACEKIT_GPU_TESTS_ON_CPU=all runs it",
)
def test_a_pack_without_index_and_route_out(tmp_path):
    """The wheel of this tree is tried by the tests that are carried, and the run folder is back."""
    pytest.importorskip("torch")
    pack, out = tmp_path / "pack", tmp_path / "out"
    script = Path(carry.__file__)
    done = finished(sys.executable, script, "pack", pack, "--parts", "tracekit", CFLAGS="-O0")
    assert done.returncode == 0, done.stderr
    # This environment's packages replace the host's, except tracekit, which is in the folder.
    host = fresh_environment(tmp_path / "host")
    carried = pack / "evaluations" / "gpu_pack" / "carry.py"
    done = finished(
        *(*without_route(), host, carried, "run", out, "--marks", "not gpu", "--jobs", "1"),
        *("--", "tests/gpu", "-k", "plain-cpu or d2d"),
        **_WITHOUT_NETWORK,
    )
    assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"
    rows = [json.loads(line) for line in (out / "side_by_side.jsonl").read_text().splitlines()]
    outcomes = {row["nodeid"]: row["outcome"] for row in rows if row.get("when") == "call"}
    assert list(outcomes.values()) == ["passed"], outcomes
    assert "1 passed" in (out / "alone.log").read_text()
    with tarfile.open(out / "kept-1.tar.gz") as archive:
        member = archive.extractfile("runs/cpu/loops/plain/run.json")
        assert json.loads(member.read())["outcome"] == "ok"


def without_route():
    """Return a prefix that restricts a command to the loopback network, if possible."""
    # NCCL and gloo talk to this very machine.
    shell = ["sh", "-c", 'ip link set lo up && exec "$@"', "sh"]
    command = ["unshare", "--user", "--map-root-user", "--net", *shell]
    if shutil.which("unshare") is None or finished(*command, "true").returncode != 0:
        return []
    return command


def fresh_environment(folder):
    """Return the Python of an environment that has this one's packages, less tracekit's own."""
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(folder)], check=True)
    (there,) = folder.glob("lib/python*/site-packages")
    for path in Path(sysconfig.get_path("purelib")).iterdir():
        # An editable tracekit is known by a file of paths, which is left out.
        if "tracekit" not in path.name.lower():
            (there / path.name).symlink_to(path)
    return folder / "bin" / "python"


def test_returned_files_are_limited_and_others_are_reported(tmp_path):
    kept, out = tmp_path / "kept", tmp_path / "out"
    out.mkdir()
    for number, size in enumerate((100, 6_000, 50_000, 6_000, 6_000, 9_000)):
        folder = kept / "runs" / f"run{number}"
        folder.mkdir(parents=True)
        (folder / "run.json").write_text("{}")
        (folder / "rank0.json.gz").write_bytes(os.urandom(size))
        os.utime(folder / "run.json", (number, number))
    left = carry.bring_back(kept, out, most_bytes=13_000)
    assert left == ["runs/run2: 0.1 MB", "runs/run5: 0.0 MB"]
    found = {}
    for file in sorted(out.iterdir()):
        with tarfile.open(file) as archive:
            found[file.name] = [name for name in archive.getnames() if name.endswith(".json")]
    # The manifests of all; then as many of the folders as a file takes.
    assert len(found["kept-0.tar.gz"]) == 6
    assert [len(names) for names in found.values()] == [6, 2, 1, 1]


def test_a_run_leaves_no_processes(tmp_path):
    sleeper = [sys.executable, "-c", "import time; print(flush=True); time.sleep(600)"]
    environment = {**os.environ, "TRACEKIT_GPU_TESTS_OUT": str(tmp_path / "kept")}
    process = subprocess.Popen(
        sleeper, env=environment, stdout=subprocess.PIPE, start_new_session=True
    )
    process.stdout.readline()
    carry.end_all(tmp_path / "other")
    assert process.poll() is None
    carry.end_all(tmp_path)
    assert process.wait(60) == -9
    process.stdout.close()
