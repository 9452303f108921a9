"""No name in a trace gives orders to the CI system whose log it is printed to."""

import io
import json
import re
import time

import pytest

from tracekit.cli._main import LogLines

ORDERS = ["::error::x", "a\n::error::x", " \t::stop-commands::x", "##[error]x", "a ##vso[x]y",
          "##teamcity[x]", "at::native::add", "a ## b[0]"]  # fmt: skip
OBEYED = re.compile(r"(?m)^\s*::|##\[|##vso\[|##teamcity\[")


@pytest.mark.parametrize(
    ("pieces", "written"),
    [
        (["::error::x\n"], ":\\u003aerror::x\n"),
        (["a\n \t::x", "\r::y"], "a\n \t:\\u003ax\r:\\u003ay"),
        ([" ", ":", ":x"], r" :\u003ax"),
        (["a", "::x", "\n::"], "a::x\n:\\u003a"),
        (["a ##", "v", "so[x] ##[y]##teamcity[z"], r"a ##vso\u005bx] ##\u005by]##teamcity\u005bz"),
        (["a\u2028::x", "\x85", "\ufeff ::y"], "a\u2028:\\u003ax\x85\ufeff :\\u003ay"),
        (["\ufeff", "::x\x0b:", ":y"], "\ufeff:\\u003ax\x0b:\\u003ay"),
        (["at::native ##: # [", "### a[1]\n"], "at::native ##: # [### a[1]\n"),
        ([" " * 100, "::x", " " * 100 + "::y"], " " * 100 + r":\u003ax" + " " * 100 + "::y"),
    ],
)
def test_a_line_is_made_plain_however_it_is_cut(pieces, written):
    stream = io.StringIO()
    lines = LogLines(stream, "stdout")
    assert [lines.write(piece) for piece in pieces] == [*map(len, pieces)]
    assert stream.getvalue() == written


def test_many_empty_lines_take_no_longer_than_their_number():
    """Only quadratic growth, which would take hours, breaks a bound so wide."""
    begin = time.process_time()
    LogLines(io.StringIO(), "stdout").write("\n \ufeff" * 300_000 + "::")
    assert time.process_time() - begin < 20


def test_no_format_gives_an_order(cli, tmp_path):
    trace = tmp_path / "x.json"
    trace.write_text(json.dumps([
        {"ph": "X", "cat": "kernel", "name": name, "pid": 0, "tid": 7, "ts": 9 * at, "dur": 5}
        for at, name in enumerate(ORDERS)
    ]))  # fmt: skip
    statement = "SELECT name FROM event ORDER BY ts_ns"
    for name in ("table", "markdown", "csv", "csv_plain"):
        done = cli("sql", "--format", name, trace, statement)
        assert done.exit_code == 0
        assert "native::add" in done.stdout
        assert not OBEYED.search(done.stdout), name
    exact = cli("sql", "--format", "json", trace, statement)
    assert not OBEYED.search(exact.stdout)
    assert [row["name"] for row in json.loads(exact.stdout)] == ORDERS
    assert not OBEYED.search(cli("breakdown", "--full", trace).stdout)
    wrong = cli("sql", trace, "SELECT '##vso[x]' + \n::error::x")
    assert wrong.exit_code == 5
    assert not OBEYED.search(wrong.stderr)
