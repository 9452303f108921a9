"""Messages and progress lines, and the errors and figures that they report."""

import io
import re
import sys
from pathlib import Path

import pytest

from tracekit.collectors.bench.point import Point
from tracekit.collectors.machine.memory import is_out_of_memory, out_of_memory_reason
from tracekit.collectors.progress import ProgressLine, write_notice
from tracekit.collectors.run import environment
from tracekit.collectors.run.manifest import step_cost
from tracekit.collectors.serving.plan import LoadProgress
from tracekit.collectors.sweep.run import outcome_text
from tracekit.collectors.training.run import summary
from tracekit.manifest import Environment, Manifest, Overhead, RankMemory


class Terminal(io.StringIO):
    def isatty(self):
        return True


@pytest.mark.parametrize(
    ("state", "line"),
    [
        (
            LoadProgress("load", 1000, 412, 0, 588, 52_736, 4_000_000_000),
            "load: 412 of 1000 requests, 588 in flight, 13,184 tokens/s",
        ),
        (
            LoadProgress("warm-up", 8, 2, 1, 6, 0, 0),
            "warm-up: 2 of 8 requests, 6 in flight, 0 tokens/s, 1 failed",
        ),
        (
            LoadProgress("trace", 1000, 1, 0, 9, 128, 1_000_000_000),
            "profile: 1 of 1000 requests, 9 in flight, 128 tokens/s",
        ),
        (LoadProgress("trace", 0, 0, 0, 0, 0, 7_000_000_000), "waiting for traces, 7 s"),
        (Point("gemm", "mm", dtype="bf16", m=2, n=3, k=4), "mm bf16 2×3×4"),
        (Point("memcpy", "h2d", memory="pinned", message_bytes=4096), "h2d pinned 4.10 kB"),
        (Point("launch", "graph_replay", series="kernels_10"), "graph_replay kernels_10"),
    ],
)
def test_states_in_words(state, line):
    assert str(state) == line


def test_a_terminal_gets_one_line_that_is_wiped():
    terminal = Terminal()
    with ProgressLine(terminal) as line:
        line.show("1 of 9", "load")
        line.show("1 of 9", "load")
        line.show("2 of 9", "load")  # too early
        line.show("1 of 3", "trace")
    assert terminal.getvalue() == "\r\x1b[K1 of 9\r\x1b[K1 of 3\r\x1b[K"
    file = io.StringIO()
    with ProgressLine(file) as line:
        line.show("1 of 9", "load")
    assert file.getvalue() == ""


def test_a_line_does_not_continue_an_open_bar(monkeypatch):
    from tqdm import tqdm

    written = io.StringIO()
    monkeypatch.setattr(sys, "stderr", written)
    with tqdm(total=4, file=written) as bar:
        bar.update()
        bar.refresh()
        write_notice("recorded")
    assert "tracekit: recorded" in re.split("[\r\n]", written.getvalue())
    # The bar is drawn again on the next line.
    assert "1/4" in written.getvalue().split("tracekit: recorded\n")[1]


def test_a_fake_tqdm_does_no_harm(monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, "tqdm", type("Fake", (), {"tqdm": object()})())
    write_notice("recorded")
    assert capsys.readouterr().err == "tracekit: recorded\n"


def test_a_closed_stderr_is_no_error(monkeypatch):
    closed = io.StringIO()
    closed.close()
    for stream in (closed, None):
        monkeypatch.setattr(sys, "stderr", stream)
        write_notice("recorded")


def bare(**members):
    return Manifest("a", "0", "now", "pretrain", "ddp", opt="Naive", batch_size=2, **members)


def test_a_cell_without_rate_and_memory_has_neither():
    assert outcome_text(bare()) == "? tokens/s, ? GB, batch size 2"
    known = bare(tokens_per_s_mean=0.4, peak_memory=[RankMemory(0, None, None, 1_500_000_000)])
    assert outcome_text(known) == "0 tokens/s, 1.50 GB, batch size 2"


def test_a_run_without_known_memory_is_reported():
    first, *_ = summary(bare(tokens_per_s_mean=12.0), Path("run"))
    assert first.endswith("12 tokens/s, peak memory unknown")
    first, *_ = summary(bare(peak_memory=[RankMemory(0, 2_000_000_000, None, None)]), Path("run"))
    assert first.endswith("? tokens/s, peak 2.00 GB per rank")


def test_step_cost():
    overhead = Overhead(2_000_000, ranges_step_ns=1_900_000, profiled_step_ns=2_500_000)
    assert step_cost(overhead, [1_500_000, 2_500_000]) == (
        "step 2.000 ms (1.500 ms to 2.500 ms); with ranges 1.900 ms; "
        "with ranges and profiler 2.500 ms"
    )
    assert step_cost(Overhead(2_000_000), [2_000_000]) == "step 2.000 ms"


LIBRARY = "/lib/_regex.so: failed to map segment from shared object"


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (MemoryError(), True),
        (RuntimeError("[enforce fail] DefaultCPUAllocator: can't allocate memory"), True),
        (OSError(12, "Cannot allocate memory"), True),
        # Loading a library may exceed the memory limit of a process.
        (ImportError(LIBRARY), True),
        (ImportError(f"{LIBRARY}: Cannot allocate memory"), True),
        (ImportError(f"{LIBRARY}: Operation not permitted"), False),
        (ImportError("No module named 'regex'"), False),
        (ValueError("out of memory"), False),
    ],
)
def test_errors_that_mean_out_of_memory(error, expected):
    assert is_out_of_memory(error) is expected


def test_the_cause_of_an_error_counts_and_the_reason_is_one_line():
    outer = RuntimeError("the model could not be made")
    outer.__cause__ = ImportError(LIBRARY)
    assert is_out_of_memory(outer)
    error = ImportError(f"while loading\n{LIBRARY}\nand more")
    assert out_of_memory_reason(error) == LIBRARY


def test_packages_are_looked_for_once(monkeypatch):
    names = []
    version = environment.metadata.version
    monkeypatch.setattr(
        environment.metadata, "version", lambda name: (names.append(name), version(name))[1]
    )
    environment.probe()
    count = len(names)
    environment.probe()
    assert len(names) == count


def test_ranks_with_unlike_threads_have_no_common_number():
    two = {"host_name": "a", "thread_count": 2}
    assert environment.of_ranks([two, two]) == Environment(host_name="a", thread_count=2)
    assert environment.of_ranks([two, two | {"thread_count": 1}]) == Environment(host_name="a")
    assert environment.of_ranks([{}, two]) == Environment(host_name="a", thread_count=2)
    assert environment.of_ranks([]).thread_count is None
