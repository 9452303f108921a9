"""However a program ends, `tracekit collect` returns its exit code and keeps the run folder."""

import shutil
import sys

import pytest
from _expected import assert_unharmed, expected, is_same, lines_of
from _loops import PROGRAMS

from tracekit.collectors.loop import folder as loop_folder
from tracekit.collectors.loop.plan import LoopPlan

nightly = pytest.mark.nightly("exit codes and signals of programs are tested in test_processes.py")

BEFORE, WITHIN, AFTER = 3, 7, 10  # the recorded steps are 6 and 7


@nightly
@pytest.mark.parametrize(
    ("step", "how", "exit_code", "outcome", "reason"),
    [
        (BEFORE, "raise", 1, "failed", "on purpose"),
        (WITHIN, "raise", 1, "failed", "on purpose"),
        (AFTER, "raise", 1, "failed", "on purpose"),
        (WITHIN, "torch-oom", 1, "oom", "memory"),
        (WITHIN, "no-memory", 1, "oom", "memory"),
        (WITHIN, "exit", 3, "failed", "3"),
        (WITHIN, "sys-exit", 4, "failed", "4"),
        (WITHIN, "SIGSEGV", 139, "failed", "SIGSEGV"),
    ],
)
def test_a_program_that_ends_badly(step, how, exit_code, outcome, reason, loops):
    result = loops.run("ends", str(step), how)
    assert result.exit_code == exit_code, result.stderr
    # Its output equals the plain loop's, up to the unfinished step.
    (printed,) = lines_of(result.stdout, result.files)
    assert is_same(printed, " ".join(expected()["plain"][0].split()[: 4 + step]))
    assert result.left == []
    made = result.run.manifest
    assert (made["outcome"], made["exit_code"]) == (outcome, exit_code)
    assert reason in made["reason"]
    assert made["command"][-2:] == [str(step), how]
    assert made["traces"] == result.run.traces
    if step == AFTER:
        assert result.run.steps() == {6: {6}, 7: {7}}
    elif step == WITHIN and how in ("raise", "sys-exit", "torch-oom"):
        # Step 6 is complete, and Python had the time to write it.
        assert result.run.steps()[6] == {6}
    if how == "raise":
        assert "ValueError: on purpose" in result.stderr


@nightly
def test_a_child_outlives_its_program(loops):
    code = (
        "import runpy, subprocess, sys; null = subprocess.DEVNULL\n"
        "subprocess.Popen(['sleep', '300'], stdin=null, stdout=null, stderr=null)\n"
        f"sys.path.insert(0, {str(PROGRAMS)!r}); runpy.run_path({str(PROGRAMS / 'plain.py')!r})"
    )
    result = loops.start([*loops.collect(), sys.executable, "-c", code]).end(wait_s=1)
    assert result.exit_code == 0, result.stderr
    assert result.left == ["sleep 300"]
    assert result.run.manifest["outcome"] == "ok"


@nightly
def test_a_program_that_records_itself(loops):
    result = loops.start([*loops.collect(out="outer"), *loops.program("library")]).end()
    assert_unharmed(result, "plain")
    assert result.run.manifest["outcome"] == "ok"
    assert result.run.steps() == {6: {6}, 7: {7}}
    assert not (result.folder / "outer").exists()


def test_nothing_can_be_written_into_a_folder_that_is_removed(tmp_path, monkeypatch):
    """A process that outlives the program may still write into the working folder."""
    made = loop_folder.LoopFolder(tmp_path / "run", LoopPlan(), ["python"], "1.here", force=False)
    made.open()
    (made.work / "report").touch()
    remove = shutil.rmtree

    def write_and_remove(path, **how):
        with pytest.raises(FileNotFoundError):
            (made.work / "late").touch()
        remove(path, **how)

    monkeypatch.setattr(loop_folder.shutil, "rmtree", write_and_remove)
    made.close()
    assert list(tmp_path.iterdir()) == []
    made.close()  # closing twice is allowed
    assert list(tmp_path.iterdir()) == []


def test_the_program_can_read_from_the_terminal(loops):
    """In a separate process group, it would be stopped when it reads."""
    program = [sys.executable, "-c", "print('answer', input('question '))"]
    on_terminal = [sys.executable, "-c", "import pty, sys; pty.spawn(sys.argv[1:])"]
    result = loops.start([*on_terminal, *loops.collect(), *program]).end("forty-two\n")
    assert "answer forty-two" in result.stdout
    assert result.left == []
