"""The interactive prompt: it answers, completes, remembers, and survives errors."""

from __future__ import annotations

import io
import stat
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from prompt_toolkit.application import create_app_session
from prompt_toolkit.completion import CompleteEvent
from prompt_toolkit.document import Document
from prompt_toolkit.input import PipeInput, create_pipe_input
from prompt_toolkit.output import DummyOutput

from tracekit.cli._line_editor import SqlCompleter, history_path
from tracekit.cli._prompt import answer, is_complete, run_prompt


@pytest.fixture(autouse=True)
def state_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    return tmp_path / "state"


@pytest.fixture
def keyboard() -> Iterator[PipeInput]:
    with create_pipe_input() as pipe, create_app_session(input=pipe, output=DummyOutput()):
        yield pipe


def test_a_session_from_the_first_key_to_the_last(
    fake_trace: Any, keyboard: PipeInput, capsys: pytest.CaptureFixture[str], state_home: Path
) -> None:
    keyboard.send_text(
        "SELECT max(dur_ns) AS dur_ns\nFROM event;\n"
        "SELECT nonsense FROM event;\n.tables\n.nothing\n.quit\n"
    )
    run_prompt(fake_trace, "table")
    captured = capsys.readouterr()
    assert captured.out.splitlines()[:4] == [
        " dur_ns",
        "───────",
        "1500000",
        "name   meaning",
    ]
    assert "event  one span" in captured.out
    assert 'error: Binder Error: Referenced column "nonsense" not found' in captured.err
    assert "error: unknown command .nothing" in captured.err
    history = state_home / "tracekit" / "sql_history"
    assert "FROM event;" in history.read_text(encoding="utf-8")
    assert stat.S_IMODE(history.stat().st_mode) == 0o600


def test_ctrl_d_leaves_and_ctrl_c_does_not(
    fake_trace: Any, keyboard: PipeInput, capsys: pytest.CaptureFixture[str]
) -> None:
    keyboard.send_text("SELECT\x03SELECT 42 AS answer;\n\x04")
    run_prompt(fake_trace, "csv")
    assert capsys.readouterr().out == "answer\n42\n"


def test_without_the_extra_lines_are_read(
    fake_trace: Any, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "tracekit.cli._line_editor", None)
    monkeypatch.setattr("sys.stdin", io.StringIO("SELECT\n42 AS answer;\n\n.quit\n"))
    run_prompt(fake_trace, "csv")
    captured = capsys.readouterr()
    assert captured.out.endswith("answer\n42\ntracekit> tracekit> ")
    assert "pip install '.[shell]'" in captured.err


def test_a_history_that_cannot_be_kept_is_said(
    fake_trace: Any,
    keyboard: PipeInput,
    capsys: pytest.CaptureFixture[str],
    state_home: Path,
) -> None:
    state_home.write_text("a file where a folder should be")
    keyboard.send_text(".quit\n")
    run_prompt(fake_trace, "table")
    assert "no history is kept" in capsys.readouterr().err


@pytest.mark.parametrize("given", ["", "relative/path"])
def test_the_history_is_under_the_state_folder(monkeypatch: pytest.MonkeyPatch, given: str) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", given)
    monkeypatch.setenv("HOME", "/home/someone")
    assert history_path() == Path("/home/someone/.local/state/tracekit/sql_history")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("SELECT 1", False),
        ("SELECT 1;", True),
        ("SELECT 1 ;  \n", True),
        (".tables", True),
        ("", True),
        ("SELECT\nFROM", False),
    ],
)
def test_enter_runs_what_is_complete(text: str, expected: bool) -> None:
    assert is_complete(text) is expected


def test_many_rows_are_cut_and_it_is_said(
    fake_trace: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    answer(fake_trace, "SELECT range AS n FROM range(1000000000);", "csv", max_rows=3)
    captured = capsys.readouterr()
    assert captured.out == "n\n0\n1\n2\n"
    assert captured.err == "only the first 3 rows are shown (--limit)\n"


def test_schema_tells_type_and_meaning(fake_trace: Any, capsys: pytest.CaptureFixture[str]) -> None:
    answer(fake_trace, ".schema event", "table")
    out = capsys.readouterr().out
    assert "event  dur_ns  BIGINT   –      duration, ns" in out
    answer(fake_trace, ".schema", "table")
    assert capsys.readouterr().out == out
    answer(fake_trace, ".schema evnt", "table")
    assert "there is no table or view 'evnt'" in capsys.readouterr().err


def test_help_lists_every_command(fake_trace: Any, capsys: pytest.CaptureFixture[str]) -> None:
    answer(fake_trace, ".help", "table")
    out = capsys.readouterr().out
    for command in (".tables", ".schema", ".help", ".quit"):
        assert command in out


def test_an_interrupt_ends_the_statement_only(
    fake_trace: Any, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(*args: object, **kwargs: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(fake_trace, "stream_sql", interrupted)
    answer(fake_trace, "SELECT 1;", "table")
    assert capsys.readouterr().err == "interrupted\n"


@pytest.fixture
def completions() -> Callable[[str], list[str]]:
    completer = SqlCompleter(
        {"event": ("event_id", "name", "dur_ns"), "device_events": ("device", "wall_ns")},
        ["select", "from", "where", "group", "natural"],
        [".tables", ".schema"],
    )

    def complete(text: str) -> list[str]:
        found = completer.get_completions(Document(text), CompleteEvent(completion_requested=True))
        return [completion.text for completion in found]

    return complete


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("SEL", ["SELECT"]),
        ("SELECT * FROM ev", ["event"]),
        ("SELECT * FROM ", ["device_events", "event"]),
        ("DESCRIBE dev", ["device_events"]),
        ("SELECT * FROM event WHERE na", ["name", "NATURAL"]),
        ("SELECT * FROM event e WHERE e.d", ["dur_ns"]),
        ("SELECT * FROM event AS e JOIN device_events d WHERE d.", ["device", "wall_ns"]),
        ("SELECT event.", ["event_id", "name", "dur_ns"]),
        ("SELECT zzz.", []),
        (".ta", [".tables"]),
        (".schema ev", ["event"]),
        (".tables ev", []),
        ("SELECT 1 +", ["device_events", "event", "FROM", "GROUP", "NATURAL", "SELECT", "WHERE"]),
    ],
)
def test_the_word_at_the_cursor_is_completed(
    completions: Callable[[str], list[str]], text: str, expected: list[str]
) -> None:
    assert completions(text) == expected
