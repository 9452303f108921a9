"""A training loop of somebody else's under `tracekit collect -- python …`."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path

import tracekit
from evidence import _commands
from evidence._records import Case, Record
from evidence._setting import Setting
from evidence._trace_checks import check

_PROGRAMS = Path(__file__).resolve().parent.parent / "loops"
_STEP_COUNT = 14
# A program is not made to wait before it is recorded: what is queued by then has no launch there.
_LINKED_AT_LEAST_PCT = 90.0
_OPTIONS = ("--warmup", 2, "--steps", 3, "--profile-steps", 2)
_LOSS = re.compile(r"^step (\d+) loss (\S+)$", re.MULTILINE)
_ENVIRONMENT = {
    # Programs of several ranks find themselves alone.
    "RANK": "0",
    "LOCAL_RANK": "0",
    "WORLD_SIZE": "1",
    "LOCAL_WORLD_SIZE": "1",
    "MASTER_ADDR": "127.0.0.1",
}


def run(setting: Setting, record: Record) -> None:
    """Run the program and look at what is left."""
    program, words = setting.arguments["program"], setting.arguments["words"]
    folder = setting.runs_folder / "loops" / "-".join([program, *words])
    folder.parent.mkdir(parents=True, exist_ok=True)
    command = [sys.executable, str(_PROGRAMS / f"{program}.py"), *words]
    is_ours = program == "library"
    before = [] if is_ours else [*setting.tracekit, "collect", "--out", folder, *_OPTIONS, "--"]
    variables = {"LOOP_STEPS": str(_STEP_COUNT), "LOOP_OUT": str(folder)}
    if program in ("ddp", "fsdp2"):
        variables |= {**_ENVIRONMENT, "MASTER_PORT": _free_port()}
    with record.case(setting.item) as case:
        done = _commands.run([*map(str, [*before, *command])], setting.work_folder, variables)
        case.claim("the program ends well", done.exit_code == 0, done.exit_code, "0")
        losses = _LOSS.findall(done.stdout)
        case.claim("all its steps ran", len(losses) == _STEP_COUNT, len(losses), str(_STEP_COUNT))
        if done.exit_code != 0 or not (folder / "run.json").is_file():
            case.claim("there is a run folder", False, done.last_words)
            return
        made = json.loads((folder / "run.json").read_text("utf-8"))
        case.claim("the run is ok", made["outcome"] == "ok", made.get("reason"))
        profiled = made["steps"]["profiled_count"]
        case.claim("two steps are profiled", profiled == 2, profiled)
        overhead = made.get("overhead") or {}
        case.figure(tokens_per_s=made.get("tokens_per_s_mean"), notes=made["notes"], **overhead)
        phases = {"forward", "backward", "optimizer"}
        check(
            case,
            folder,
            phases=phases,
            has_cuda=setting.host.has_cuda,
            linked_at_least_pct=_LINKED_AT_LEAST_PCT,
        )
        if "compiled" in (program, *words):
            _check_compiled(case, folder, setting, words)


def _check_compiled(case: Case, folder: Path, setting: Setting, words: list[str]) -> None:
    """Claim that the compiled region is seen, and on a GPU its fused kernels and graphs."""
    with tracekit.open(folder) as trace:
        rows = trace.health().to_dicts()
        classes = {row["class"] for row in trace.query("kernel_classes").to_dicts()}
        replays = trace.sql(
            "SELECT count(*) AS n FROM runtime_calls WHERE name LIKE '%GraphLaunch%'"
        )
        graphs = replays.to_dicts()[0]["n"]
    health = {row["metric"]: row["value"] for row in rows}
    value = health["compiled_region_device_time"]
    case.claim("time of compiled regions is told", bool(value), value, "above 0")
    if setting.host.has_cuda:
        case.claim("fused kernels have their class", "triton_fused" in classes, classes)
    if "reduce-overhead" in words:
        case.claim("graphs were replayed", graphs > 0, graphs, "above 0")


def _free_port() -> str:
    import socket

    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        return str(server.getsockname()[1])
