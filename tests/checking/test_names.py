"""Rules do not pass because of a misspelled name, a wrong unit, or a missing total."""

import pytest
from every_trace import REPO
from msgspec.structs import replace
from sides_by_hand import cell_of, side_of

from tracekit.analysis.catalog import load_catalog
from tracekit.analysis.result import Column, Result
from tracekit.checking.evaluate import judge
from tracekit.checking.measured import Measured
from tracekit.checking.names import LATENCIES, OF_MANIFESTS
from tracekit.checking.rules import parse_rule
from tracekit.comparison.cells import ModuleNode
from tracekit.errors import UsageError

SAMPLE = REPO / "sample_traces" / "pretrain_Naive"


STEPS = [1000, 1001, 1002, 1003, 1004, 1005]


def _measured(*cells, modules=()):
    parents = {"model": None}
    nodes = {path: ModuleNode(path, parents.get(path, "model"), None) for path in modules}
    known = {"device_time_linked": 99.0}, {"mfu": 0.3, "peak_memory": 5e9}
    return Measured("x", side_of(*cells, modules=nodes), *known)


RUN = _measured(
    cell_of("compute", "gemm", "model.layers.*.mlp", STEPS),
    cell_of("idle", "host_bound", "model.layers.*.mlp", [10] * 6),
    modules=("model", "model.layers.*.mlp", "model.norm"),
)


@pytest.mark.parametrize(
    ("rule", "hint"),
    [
        ("class.gem.wall_ns <= 1 ms", "did you mean gemm?"),
        ("class.comm_alreduce.wall_ns <= +2%", "did you mean comm_allreduce"),
        ("phase.backwards.wall_ns <= 1 ms", "did you mean backward?"),
        ("cause.host_sink.idle_ns <= 1 ms", "did you mean host_sync or"),
        ("cause.gemm.idle_ns <= 1 ms", "host_bound"),
        ("class.host_bound.wall_ns <= 1 ms", "gemm"),
        ("class.gemm.idle_ns <= 1 ms", "wall_ns"),
        ("cause.host_bound.kernel_count <= 1", "idle_ns"),
        ('module("*.mpl").wall_ns <= 1 ms', "tracekit query modules"),
        ('module("model.layer.*.mlp").wall_ns <= 1 ms', "did you mean model.layers.*.mlp"),
        ('module("*.mlp").wal_ns <= 1 ms', "did you mean wall_ns"),
        ("health.device_time_linkd >= 95", "did you mean device_time_linked?"),
        ("p99(tttf) <= 300 ms", "did you mean ttft?"),
        ("timelin.idle_pct <= 20", "did you mean timeline"),
        ("timeline.idle_pc <= 20", "did you mean idle_pct"),
    ],
)
def test_a_misspelled_name_is_refused(rule, hint):
    with pytest.raises(UsageError, match="unknown rule target") as refused:
        judge(parse_rule(rule), RUN, RUN)
    assert hint in (refused.value.hint or "")


OWN = _measured(cell_of("compute", "my_kernels", "m", STEPS))
PART = _measured(cell_of("compute", "gemm", "m", [0, 100, 300]))


@pytest.mark.parametrize(
    ("rule", "run", "outcome", "value"),
    [
        # A known name without data counts as 0.
        ("class.attention.wall_ns <= 0", RUN, "passed", 0),
        ("phase.optimizer.wall_ns <= 0 ms", RUN, "passed", 0),
        # User-defined classes are valid.
        ("class.my_kernels.wall_ns <= 1 ms", OWN, "passed", 1002.5),
        ('module("*.mlp").idle_ns <= 1 ms', RUN, "passed", 10),
        ('module("model").wall_ns <= 1 ms', RUN, "passed", 1002.5),
        ("compute_pct >= 100", PART, "passed", 100),
        # A share may be written in percent.
        ("mfu >= 40 %", RUN, "failed", 0.3),
        ("mfu >= 29 %", RUN, "passed", 0.3),
    ],
)
def test_names_have_values(rule, run, outcome, value):
    found = judge(parse_rule(rule), run, None)
    assert (found.outcome, found.value) == (outcome, value)


def test_unknown_on_both_sides_is_no_change():
    found = judge(parse_rule("cause.host_sync.idle_ns <= +3%"), RUN, RUN)
    assert found.outcome == "passed"


def test_a_module_of_one_side_alone_is_open():
    renamed = _measured(cell_of("compute", "gemm", "net.mlp", STEPS), modules=("net.mlp",))
    rule = parse_rule('module("model.*.mlp").wall_ns <= +5%')
    assert judge(rule, renamed, RUN).outcome == "inconclusive"
    unattributed = _measured(cell_of("compute", "gemm", "(unattributed)", STEPS))
    rule = parse_rule('module("*.mlp").wall_ns <= 1 ms')
    assert judge(rule, unattributed, None).outcome == "inconclusive"


def test_a_share_of_zero_is_none():
    empty = _measured(cell_of("compute", "gemm", "m", [0, 0]))
    assert judge(parse_rule("idle_pct <= 20"), empty, None).outcome == "inconclusive"


@pytest.mark.parametrize(
    "rule",
    [
        "idle_pct <= 10 ms",
        "step_time <= 3%",
        "step_time <= 3 GB",
        "peak_memory <= 70 s",
        "class.gemm.kernel_count <= 5 ns",
        "mfu >= 3 ms",
    ],
)
def test_a_bound_of_another_unit_is_refused(rule):
    with pytest.raises(UsageError, match="is not measured in"):
        judge(parse_rule(rule), RUN, None)


def test_one_time_each_decides_nothing():
    slower = replace(RUN, figures={"mfu": 0.1, "peak_memory": 6e9})
    for text in ("class.gemm.kernel_ns <= +3%", "mfu >= -3%"):
        found = judge(parse_rule(text), slower, RUN)
        assert (found.outcome, found.reason) == ("inconclusive", "one value each: noise unknown")
    assert judge(parse_rule("peak_memory <= +3%"), slower, RUN).outcome == "failed"


def test_tokens_per_second_are_judged_by_repeats():
    base = replace(RUN, figures={"tokens_per_s": 102.5}, repeats=[100.0, 101, 102, 103, 104, 105])
    slow = replace(RUN, figures={"tokens_per_s": 92.5}, repeats=[x - 10 for x in base.repeats])
    rule = parse_rule("tokens_per_s >= -2%")
    assert [judge(rule, one, base).outcome for one in (slow, base)] == ["failed", "inconclusive"]
    fewer = replace(base, repeats=base.repeats[:2])
    found = judge(rule, fewer, fewer)
    assert found.reason == "2 vs. 2 repeats, all within the bound; a verdict needs 6"


def test_steps_of_a_run_without_a_trace_are_judged():
    base = replace(RUN, side=None, step_ns=[100.0, 101, 102, 103, 104, 105])
    slow = replace(base, step_ns=[x + 10 for x in base.step_ns])
    rule = parse_rule("unprofiled_step_time <= +2%")
    assert [judge(rule, one, base).outcome for one in (slow, base)] == ["failed", "inconclusive"]
    assert judge(parse_rule("unprofiled_step_time <= 103 ns"), slow, None).outcome == "failed"
    assert judge(parse_rule("unprofiled_step_time <= 103 ns"), base, None).outcome == "passed"
    unknown = judge(parse_rule("unprofiled_step_time <= 1 s"), RUN, None)
    assert unknown.outcome == "inconclusive"
    assert "unprofiled_step_time is unknown" in unknown.reason


def test_known_names_are_complete(opened):
    sample = opened(SAMPLE)
    assert set(sample.query("run_health").column("metric")) <= set(OF_MANIFESTS)
    statement = load_catalog().analyses["latency"].sql
    assert all(f"'{metric}'" in statement for metric in LATENCIES)


class _TellsMfu:
    """A stand-in for a trace with the given rows of `mfu`."""

    def __init__(self, *steps):
        names = {"mfu_pct": "DOUBLE", "step_ns": "BIGINT", "run_mfu_pct": "DOUBLE"}
        columns = tuple(Column(name, kind) for name, kind in names.items())
        self._result = Result("mfu", columns, [(*step, None) for step in steps])

    def query(self, name):
        assert name == "mfu"
        return self._result

    def sql(self, statement):
        assert "EXISTS (FROM trace)" in statement
        return [(True,)]


@pytest.mark.parametrize(
    ("steps", "outcome", "share", "basis"),
    [
        ([(40.0, 900), (10.0, 100)], "failed", 0.37, "known for 100 %"),
        ([(50.0, 980), (None, 20)], "passed", 0.5, "known for 98 %"),
        ([(50.0, 900), (None, 100)], "inconclusive", None, "only 90.0 %"),
        ([(None, 900)], "inconclusive", None, "mfu is unknown"),
    ],
)
def test_mfu_reports_its_basis(steps, outcome, share, basis):
    run = replace(RUN, trace=_TellsMfu(*steps))
    found = judge(parse_rule("mfu >= 0.4"), run, None)
    assert (found.outcome, found.value) == (outcome, share)
    assert basis in found.reason
