"""Exact output of every command on small inputs.

Each text file has commands after `$ ` with their output. `python tests/golden/test_golden.py`
rewrites the outputs; review the diff before you commit it.
"""

import sys
import tempfile
from pathlib import Path

import pytest
from every_trace import SAMPLES

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "docs"))

from generate.sessions import opened_once, run, sessions

HERE = Path(__file__).parent
FILES = sorted(HERE.glob("*.txt"))


def commands_in(file):
    return sessions(f"```console\n{file.read_text('utf-8')}```")


@pytest.fixture(scope="module")
def folder(tmp_path_factory, keep_stores):
    """Return the folder for the cache and for files that commands write."""
    folder = tmp_path_factory.mktemp("golden")
    keep_stores(folder / "cache", *SAMPLES)
    (folder / "runs").mkdir()
    return folder


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_output(file, folder):
    with opened_once():
        for command, shown in commands_in(file):
            assert run(command, folder) == shown, command


def test_every_command_has_golden_output():
    from tracekit.cli._main import SECTIONS, SUBCOMMANDS

    words = [command.split()[1:3] for file in FILES for command, _ in commands_in(file)]
    assert {first for first, *_ in words} >= {name for names in SECTIONS.values() for name in names}
    shown = {word for _, *more in words for word in more}
    assert shown >= SUBCOMMANDS.keys() - {"perfetto", "collapsed", "speedscope"}


if __name__ == "__main__":
    for text in FILES:
        with tempfile.TemporaryDirectory() as written, opened_once():
            (Path(written) / "runs").mkdir()
            text.write_text(
                "".join(f"$ {line}\n{run(line, Path(written))}" for line, _ in commands_in(text)),
                "utf-8",
            )
