"""The launcher: ranks find their place, one that fails is named, none is left."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from pathlib import Path

import pytest
from processes import running, wait_for

from tracekit.collectors.process.distributed import Place, place_in
from tracekit.collectors.process.launch import Failure, run_ranks
from tracekit.errors import UsageError


def script(folder: Path, text: str) -> list[str]:
    path = folder / "rank.py"
    path.write_text("import json, os, sys, time\n" + text, "utf-8")
    return [str(path), str(folder)]


def test_each_rank_finds_its_place(tmp_path: Path) -> None:
    arguments = script(
        tmp_path,
        "names = ('RANK', 'LOCAL_RANK', 'WORLD_SIZE', 'LOCAL_WORLD_SIZE', 'EXTRA')\n"
        "print(json.dumps([os.environ[name] for name in names]))\n",
    )
    assert run_ranks(arguments, 3, tmp_path, environment={"EXTRA": "x"}) is None
    for rank in range(3):
        found = json.loads((tmp_path / f"rank{rank}.log").read_text("utf-8"))
        assert found == [str(rank), str(rank), "3", "3", "x"]


def test_a_rank_that_fails_ends_the_others(tmp_path: Path) -> None:
    arguments = script(
        tmp_path,
        "if os.environ['RANK'] == '1':\n    raise ValueError('what a pity')\ntime.sleep(60)\n",
    )
    begin = time.monotonic()
    failure = run_ranks(arguments, 3, tmp_path)
    assert time.monotonic() - begin < 10
    assert failure == Failure(1, 1, tmp_path / "rank1.log")
    assert failure.exit_description == "exit code 1"
    assert failure.last_error() == "ValueError: what a pity"


def test_a_rank_that_ignores_sigterm_is_killed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from tracekit.collectors.process import launch

    monkeypatch.setattr(launch, "_GRACE_S", 0.3)
    arguments = script(
        tmp_path,
        "import signal\n"
        "signal.signal(signal.SIGTERM, signal.SIG_IGN)\n"
        "open(sys.argv[1] + '/ready' + os.environ['RANK'], 'w').close()\n"
        "while os.environ['RANK'] == '1' and not os.path.exists(sys.argv[1] + '/ready0'):\n"
        "    time.sleep(0.01)\n"
        "time.sleep(60 if os.environ['RANK'] == '0' else 0)\n"
        "sys.exit(3)\n",
    )
    begin = time.monotonic()
    failure = run_ranks(arguments, 2, tmp_path)
    assert time.monotonic() - begin < 10
    assert failure is not None
    assert (failure.rank, failure.exit_description) == (1, "exit code 3")


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="looks for processes in /proc")
def test_ranks_do_not_outlive_a_launcher_that_is_killed(tmp_path: Path) -> None:
    arguments = script(
        tmp_path,
        "from tracekit.collectors.process.launch import run_as_rank\n"
        "def work(place):\n"
        "    with open(f'{sys.argv[1]}/pid{place.rank}', 'w') as file:\n"
        "        print(os.getpid(), file=file)\n"
        "    time.sleep(60)\n"
        "run_as_rank(work)\n",
    )
    launch = (
        "import pathlib, sys; from tracekit.collectors.process.launch import run_ranks;"
        "run_ranks(sys.argv[1:], 2, pathlib.Path(sys.argv[2]))"
    )
    files = [tmp_path / f"pid{rank}" for rank in range(2)]
    with subprocess.Popen([sys.executable, "-c", launch, *arguments]) as launcher:
        while not all(file.exists() and file.read_text().endswith("\n") for file in files):
            assert launcher.poll() is None
            time.sleep(0.01)
        launcher.kill()
    wait_for(lambda: not running(int(file.read_text()) for file in files))


def test_a_rank_that_does_not_name_its_error_is_quoted(tmp_path: Path) -> None:
    arguments = script(tmp_path, "print('one\\ntwo\\n\\nthree\\nfour')\nsys.exit(5)\n")
    failure = run_ranks(arguments, 1, tmp_path)
    assert failure is not None
    assert (failure.exit_description, failure.last_error()) == ("exit code 5", "two | three | four")


def test_ranks_take_nothing_from_the_current_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("json.py", "tracekit.py", "rank_module.py"):
        (tmp_path / name).write_text("raise SystemExit('from the current folder')\n")
    package = tmp_path / "path"
    package.mkdir()
    (package / "rank_module.py").write_text("import json, tracekit.manifest\n")
    paths = {"PYTHONPATH": str(package)}
    assert run_ranks(["-m", "rank_module"], 2, tmp_path, environment=paths) is None


def test_a_module_that_is_not_there_is_named(tmp_path: Path) -> None:
    failure = run_ranks(["-m", "no_such_module"], 2, tmp_path)
    assert failure is not None
    assert failure.last_error().endswith("No module named no_such_module")


def test_a_signal_is_named(tmp_path: Path) -> None:
    arguments = script(tmp_path, "os.kill(os.getpid(), 11)\n")
    failure = run_ranks(arguments, 1, tmp_path)
    assert failure is not None
    assert (failure.exit_description, failure.last_error()) == ("signal SIGSEGV", "")


def test_a_place_comes_from_the_environment() -> None:
    assert place_in({}) is None
    assert place_in({"RANK": "3"}) is None
    assert place_in({"RANK": "3", "WORLD_SIZE": "8", "LOCAL_RANK": "1"}) == Place(3, 1, 8)
    with pytest.raises(UsageError, match="RANK is 8, which is none of WORLD_SIZE 8"):
        place_in({"RANK": "8", "WORLD_SIZE": "8"})
    with pytest.raises(UsageError, match="is no number"):
        place_in({"RANK": "one", "WORLD_SIZE": "8"})
