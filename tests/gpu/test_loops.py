"""Unchanged third-party training loops under `tracekit collect -- python …`."""

import json
import re
import shutil
import sys

import pytest
from devices import PROGRAMS, each
from processes import free_port
from trace_claims import claim_trace

import tracekit

# By name: the program and its words.
LOOPS = {
    "plain": ["plain"],
    "compiled": ["compiled", "model", "inductor"],
    "compiled with CUDA graphs": ["compiled", "model", "reduce-overhead"],
    "autocast": ["autocast"],
    "library": ["library"],
    "Trainer": ["transformers_trainer"],
    "compiled Trainer": ["transformers_trainer", "compiled", "inductor"],
    "accelerate": ["accelerate_loop"],
    "Lightning": ["lightning_trainer"],
    "DDP": ["ddp"],
    "FSDP2": ["fsdp2"],
}
_NEEDS = {
    "transformers_trainer": ("transformers", "accelerate"),
    "accelerate_loop": ("accelerate",),
    "lightning_trainer": ("lightning",),
}
_STEP_COUNT = 14
# tracekit does not wait for the device before recording, so queued work has no launch.
_LINKED_AT_LEAST_PCT = 90.0
_OPTIONS = ("--warmup", 2, "--steps", 3, "--profile-steps", 2)
_LOSS = re.compile(r"step (\d+) loss \S+$", re.MULTILINE)


@each("loop", LOOPS, on_cpu=["plain"])
def test_a_loop_is_recorded(loop, trial):
    """The program ends well and all its steps run; its trace satisfies what any must.

    A compiled one's regions are seen, and on a GPU its fused kernels and its replayed graphs.
    """
    program, *words = LOOPS[loop]
    trial.needs(*_NEEDS.get(program, ()))
    if "graphs" in loop and not trial.is_cuda:
        pytest.skip("CUDA graphs need a CUDA device")
    folder = trial.runs / "loops" / loop.replace(" ", "_")
    command = [sys.executable, PROGRAMS / f"{program}.py", *words]
    if program != "library":  # that one calls `tracekit.collect` itself, into the same folder
        collect = [*trial.command_line, "collect", *_OPTIONS]
        command = [*collect, "--out", "run", "--", *command]
    variables = {"LOOP_STEPS": str(_STEP_COUNT), "LOOP_DEVICE": trial.device.type}
    if trial.is_cuda:
        variables["LOOP_WIDTH"] = "512"
    if program in ("ddp", "fsdp2"):
        variables |= {"RANK": "0", "LOCAL_RANK": "0", "WORLD_SIZE": "1", "LOCAL_WORLD_SIZE": "1"}
        variables |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(free_port())}
    done = trial.command(*command, **variables)
    trial.claim("the program ends well", done.exit_code == 0, done.exit_code, "0")
    losses = _LOSS.findall(done.stdout)
    trial.claim("all its steps ran", len(losses) == _STEP_COUNT, len(losses), str(_STEP_COUNT))
    made_folder = trial.work / "run"
    assert (made_folder / "run.json").is_file(), done.stderr[-2000:]
    shutil.copytree(made_folder, folder)
    made = json.loads((folder / "run.json").read_text("utf-8"))
    trial.claim("the run is ok", made["outcome"] == "ok", made.get("reason"))
    profiled = made["steps"]["profiled_count"]
    trial.claim("two steps are profiled", profiled == 2, profiled)
    overhead = made.get("overhead") or {}
    trial.figures(tokens_per_s=made.get("tokens_per_s_mean"), notes=made["notes"], **overhead)
    phases = {"forward", "backward", "optimizer"}
    claim_trace(trial, folder, phases=phases, linked_at_least_pct=_LINKED_AT_LEAST_PCT)
    if "compiled" in loop:
        _claim_compiled(trial, folder, loop)


def _claim_compiled(trial, folder, loop):
    with tracekit.open(folder, cache=False) as trace:
        health = {row["metric"]: row["value"] for row in trace.health().to_dicts()}
        classes = {row["class"] for row in trace.query("kernel_classes").to_dicts()}
        sql = "SELECT count(*) AS n FROM runtime_calls WHERE name LIKE '%GraphLaunch%'"
        graphs = trace.sql(sql).to_dicts()[0]["n"]
    value = health["compiled_region_device_time"]
    trial.claim("time of compiled regions is known", bool(value), value, "above 0")
    if trial.is_cuda:
        trial.claim("fused kernels have their class", "triton_fused" in classes, classes)
    if "graphs" in loop:
        trial.claim("graphs were replayed", graphs > 0, graphs, "above 0")
