"""A trace is complete or absent, and describes its run."""

import json
import os
import sys
from unittest.mock import Mock

import pytest
from processes import finished, on_a_thread
from trace_files import read_trace

from tracekit import __version__
from tracekit.errors import WorkloadError

torch = pytest.importorskip("torch")

from tracekit.collectors import ranges  # noqa: E402
from tracekit.collectors.profiler import profile as profiling  # noqa: E402
from tracekit.collectors.profiler.profile import Profile  # noqa: E402


def names(trace):
    return [event.get("name", "") for event in trace["traceEvents"]]


def work():
    torch.ones(4, 4) @ torch.ones(4, 4)


def run(profile, count=None):
    for number in range(profile.step_count if count is None else count):
        with ranges.step(number):
            work()
        profile.step()


def test_stderr_stays_the_programs(tmp_path, capfd):
    """Kineto announces profiles, and that one of another thread is the first."""

    def work_on_thread():
        with Profile(tmp_path / "rank0.json", {}, warmup=1, active=1) as profile:
            run(profile, 1)
            os.write(2, b"a line of the program\n")
            run(profile, 1)

    on_a_thread(work_on_thread)
    assert capfd.readouterr().err == "a line of the program\n"


def test_other_output_is_unchanged_while_the_profiler_starts(capfd):
    with profiling._without_lines():
        os.write(2, b"one\nUSDT:1 1 x.cpp:1] profiler_start\ntwo\n[W1 collection.cpp:7] Warning\n")
    assert capfd.readouterr().err == "one\ntwo\n"


@pytest.mark.parametrize("name", ["rank0.json", "rank0.json.gz"])
def test_schedule_and_metadata(name, tmp_path):
    metadata = {"stage": "pretrain", "opt": "R+Z3", "rank": 3, "world_size": 8, "seed": None}
    with Profile(tmp_path / name, metadata, warmup=2, active=2) as profile:
        assert profile.step_count == 4
        run(profile)
    trace = read_trace(tmp_path / name)
    assert [name for name in names(trace) if name.startswith("tk/")] == ["tk/step/2", "tk/step/3"]
    members = {key: value for key, value in trace.items() if key.startswith("tracekit_")}
    assert members == {
        "tracekit_stage": "pretrain",
        "tracekit_opt": "R+Z3",
        "tracekit_rank": 3,
        "tracekit_world_size": 8,
        "tracekit_version": __version__,
    }
    assert trace["record_shapes"] == 1
    # Not the folder that it was first written to.
    assert trace["traceName"] == name
    assert str(tmp_path) not in json.dumps(trace)
    assert [path.name for path in tmp_path.iterdir()] == [name]


def test_options(tmp_path):
    with Profile(
        tmp_path / "a.json",
        {},
        warmup=0,
        active=1,
        record_shapes=False,
        with_stack=True,
        profile_memory=True,
    ) as profile:
        run(profile)
    trace = read_trace(tmp_path / "a.json")
    assert "record_shapes" not in trace
    assert trace["with_stack"] == trace["profile_memory"] == 1
    assert any(event.get("cat") == "python_function" for event in trace["traceEvents"])
    assert "[memory]" in names(trace)


def test_start_and_stop_and_export_on_another_thread(tmp_path):
    profile = Profile(tmp_path / "a.json", {})
    profile.start()
    work()
    profile.stop()
    assert profile.is_recorded
    on_a_thread(profile.export)
    assert "aten::matmul" in names(read_trace(tmp_path / "a.json"))


def test_all_threads(tmp_path):
    found = []
    for all_threads in (False, True):
        profile = Profile(tmp_path / "a.json", {}, all_threads=all_threads)
        profile.start()
        on_a_thread(work)
        profile.stop()
        found.append("aten::matmul" in names(read_trace(profile.export())))
    assert found == [False, True]


def test_an_unfinished_trace_leaves_no_file(tmp_path):
    """After an exception in the block, without its folder, or with too few steps."""

    def fail():
        with Profile(tmp_path / "a.json", {}, warmup=0, active=1) as profile:
            run(profile)
            raise ValueError("on purpose")

    with pytest.raises(ValueError, match="on purpose"):
        fail()
    assert not torch.autograd._profiler_enabled()
    lost = Profile(tmp_path / "none" / "a.json", {})
    lost.start()
    lost.stop()
    with pytest.raises(WorkloadError, match="none/a"):
        lost.export()
    path = tmp_path / "a.json.gz"
    with pytest.raises(WorkloadError) as caught, Profile(path, {}, warmup=2, active=3) as profile:
        run(profile, 2)
    assert caught.value.message.startswith(f"{path}: ")
    assert not list(tmp_path.iterdir())


def test_whatever_fails_before_the_end_the_profiler_is_ended(tmp_path, monkeypatch):
    """A profiler that is dropped while it runs ends the process with a signal."""
    monkeypatch.setattr(profiling, "wait_for_gloo_threads", Mock(side_effect=ArithmeticError))
    profile = Profile(tmp_path / "a.json", {}, warmup=0, active=1)
    profile.begin()
    with pytest.raises(ArithmeticError):
        profile.step()
    with pytest.raises(ArithmeticError):
        profile.abandon()
    assert not torch.autograd._profiler_enabled()


FULL_DISK = """
import resource, signal, sys, torch
from pathlib import Path
from tracekit.collectors.profiler.profile import Profile
from tracekit.errors import WorkloadError
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
for case, (name, limit_bytes) in enumerate(
    [("a.json", 0), ("a.json", 10_000), ("a.json.gz", 0), ("a.json.gz", 10_000)]
):
    profile = Profile(Path(sys.argv[1]) / name, {})
    profile.start()
    for _ in range(2000):
        torch.ones(2, 2).add_(1)
    profile.stop()
    resource.setrlimit(resource.RLIMIT_FSIZE, (limit_bytes, resource.RLIM_INFINITY))
    try:
        profile.export()
    except WorkloadError as error:
        resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY,) * 2)
        sys.stdout.write(error.message + chr(10))
"""


@pytest.mark.nightly("mounts a file system")
def test_a_full_disk(tmp_path):
    # A limit on file sizes fails like a full disk, and needs no privileges.
    result = finished(sys.executable, "-c", FULL_DISK, tmp_path)
    lines = result.stdout.splitlines()
    assert len(lines) == 4, result.stderr
    for line, name in zip(lines, ("a.json", "a.json", "a.json.gz", "a.json.gz"), strict=True):
        assert line.startswith(f"{tmp_path / name}: ")
    assert not list(tmp_path.iterdir())


def test_a_file_that_is_not_finished_replaces_nothing(tmp_path):
    path = tmp_path / "a.json"
    path.write_text("old")

    def fail():
        with profiling.complete_file(path) as aside:
            aside.write_text("half")
            raise ValueError("on purpose")

    with pytest.raises(ValueError, match="on purpose"):
        fail()
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]
