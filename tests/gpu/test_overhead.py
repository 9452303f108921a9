"""What ranges and profiler cost a step."""

from collections import Counter

import pytest
from devices import each
from trace_files import read_trace

_RANGES_AT_MOST_PCT = 5.0
_OPTIONS = {
    "usual": {},
    "with stacks": {"with_stack": True},
    "with memory": {"profile_memory": True},
    "without shapes": {"no_shapes": True},
}
_OF_FULL_WIDTH = {"model": "llama2-7b", "layers": 4, "batch_size": 4, "seq_len": 1024}
_OF_FULL_WIDTH |= {"warmup": 3, "steps": 10, "repeats": 3, "profile_steps": 3}
_TRIAL = {"model": "tiny", "layers": 2, "batch_size": 1, "seq_len": 64}
_TRIAL |= {"warmup": 1, "steps": 2, "repeats": 1, "profile_steps": 1}


def _counts(trace):
    return Counter(event.get("cat") for event in read_trace(trace)["traceEvents"])


@pytest.mark.alone
@each("options", _OPTIONS, on_cpu=["with memory"])
def test_ranges_cost_little(options, trial):
    """Ranges cost at most 5 % of a step of full width; the profiler's cost is reported.

    The claim is about a GPU without waits for it; on a CPU, only the existence of the figures is
    checked. Light steps show all kernels but no ops, and cost less than profiled ones.
    """
    trial.needs("transformers")
    folder = f"overhead/{options.replace(' ', '_')}"
    wanted = {**(_OF_FULL_WIDTH if trial.is_cuda else _TRIAL), **_OPTIONS[options]}
    run = trial.collect(folder, "--stage", "pretrain", **wanted)
    overhead = run["overhead"]
    plain, ranges, profiled = (
        overhead[f"{kind}_step_ns"] for kind in ("plain", "ranges", "profiled")
    )
    ranges_pct = 100 * (ranges / plain - 1)
    trial.figures(
        **overhead,
        profiler_cost_pct=100 * (profiled / plain - 1),
        trace_bytes=(trial.runs / folder / "rank0.json.gz").stat().st_size,
    )
    trial.claim("light traces", len(run["light_traces"]) == trial.is_cuda, run["light_traces"])
    for name in run["light_traces"]:
        counts = [_counts(trial.runs / folder / path) for path in (name, run["traces"][0])]
        kernels = [count["kernel"] for count in counts]
        trial.claim("light steps have all kernels", kernels[0] == kernels[1] > 0, kernels)
        trial.claim("light steps have no op", not counts[0]["cpu_op"], counts[0]["cpu_op"])
        light = overhead["light_step_ns"]
        trial.figures(light_cost_pct=100 * (light / plain - 1))
        trial.claim("light steps cost less", light <= profiled, (light, profiled))
    is_little = not trial.is_cuda or ranges_pct <= _RANGES_AT_MOST_PCT
    trial.claim("ranges cost little", is_little, ranges_pct, f"at most {_RANGES_AT_MOST_PCT} %")
