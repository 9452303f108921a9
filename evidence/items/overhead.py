"""What ranges and profiler cost a step."""

from __future__ import annotations

import json

from evidence._commands import options, tracekit
from evidence._records import Record, SkippedError
from evidence._setting import Setting

_RANGES_AT_MOST_PCT = 5.0
_COUNTS = {"warmup": 3, "steps": 10, "repeats": 3, "profile_steps": 3}
_DRY_COUNTS = {"warmup": 1, "steps": 2, "repeats": 1, "profile_steps": 1}


def run(setting: Setting, record: Record) -> None:
    """Collect with each choice of the profiler, and note what the steps took."""
    wanted = {name: value for name, value in setting.arguments.items() if name != "script"}
    wanted |= _DRY_COUNTS if setting.is_dry else _COUNTS
    for name, more in {
        "usual": {},
        "with stacks": {"with_stack": True},
        "with memory": {"profile_memory": True},
        "without shapes": {"no_shapes": True},
    }.items():
        with record.case(name) as case:
            folder = setting.runs_folder / f"overhead_{name.replace(' ', '_')}"
            words = options({**wanted, **more, "out": folder})
            done = tracekit(setting, "collect", "--stage", "pretrain", *words)
            case.claim("it ends well", done.exit_code == 0, done.last_words)
            if done.exit_code != 0:
                continue
            run = json.loads((folder / "run.json").read_text("utf-8"))
            plain, ranges, profiled = (
                run["overhead"][f"{kind}_step_ns"] for kind in ("plain", "ranges", "profiled")
            )
            ranges_pct = 100 * (ranges / plain - 1)
            case.figure(
                plain_step_ns=plain,
                ranges_step_ns=ranges,
                profiled_step_ns=profiled,
                ranges_cost_pct=ranges_pct,
                profiler_cost_pct=100 * (profiled / plain - 1),
                trace_bytes=(folder / "rank0.json.gz").stat().st_size,
            )
            if not setting.host.has_cuda:
                raise SkippedError("the claim is about a GPU that is never waited for")
            wanted_text = f"at most {_RANGES_AT_MOST_PCT} %"
            is_little = ranges_pct <= _RANGES_AT_MOST_PCT
            case.claim("ranges cost little", is_little, ranges_pct, wanted_text)
