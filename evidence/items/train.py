"""A training run of the paper's: Llama2-7B at full width, with as many layers as fit."""

from __future__ import annotations

import json
import math
from typing import Any

from evidence._commands import options, tracekit
from evidence._records import Case, Record
from evidence._setting import Setting

_WIDTH, _INNER, _LAYERS, _HEADS, _VOCABULARY = 4096, 11008, 32, 32, 32000
_LAYER_PARAMETERS = 4 * _WIDTH**2 + 3 * _WIDTH * _INNER + 2 * _WIDTH
_OTHER_PARAMETERS = 2 * _VOCABULARY * _WIDTH + _WIDTH
_USABLE_SHARE = 0.9
_FIXED_BYTES = 3e9  # the context, NCCL, workspaces, buckets


def run(setting: Setting, record: Record) -> None:
    """Collect the run, with fewer layers if it does not fit after all."""
    wanted = {name: value for name, value in setting.arguments.items() if name != "script"}
    most = int(wanted.pop("most_layers", _LAYERS))
    layers = wanted.pop("layers", None)
    if layers is None:
        layers = min(most, layers_that_fit(wanted, setting.host.device_memory_bytes))
    whole = _LAYERS if wanted["model"] == "llama2-7b" else None
    with record.case(setting.item) as case:
        for number in (layers, max(1, 3 * layers // 4), max(1, layers // 2)):
            if _collect(case, setting, wanted, number, whole) != "oom":
                break


def _collect(
    case: Case, setting: Setting, wanted: dict[str, Any], layers: int, whole: int | None
) -> str:
    """Collect with some layers, and return the outcome."""
    folder = setting.runs_folder / setting.item.replace(" ", "_")
    cut = None if layers == whole else layers
    words = options({**wanted, "layers": cut, "out": folder, "force": True})
    done = tracekit(setting, "collect", *words)
    path = folder / "run.json"
    if not path.is_file():
        case.claim("it leaves a run folder", False, done.last_words)
        return "none"
    run = json.loads(path.read_text("utf-8"))
    if run["outcome"] == "oom":
        case.figure(**{f"oom_with_{layers}_layers": run["reason"]})
        if layers > 1:
            return "oom"
    case.claim("it ends well", run["outcome"] == "ok", run["reason"], "ok")
    if run["outcome"] != "ok":
        return str(run["outcome"])
    loss = run["extra"]["last_losses"][0]
    case.claim("the loss is a number", loss is not None and math.isfinite(loss), loss)
    steps = [ns for repeat in run["repeats"] for ns in repeat["step_ns"]]
    memory = run["peak_memory"][0]
    case.figure(
        layer_count=layers,
        whole_layer_count=whole,
        tokens_per_s=run["tokens_per_s_mean"],
        tokens_per_s_std=run["tokens_per_s_std"],
        step_ns=sum(steps) / len(steps),
        peak_device_bytes=memory["device_allocated_bytes"],
        peak_reserved_bytes=memory["device_reserved_bytes"],
        attention_backend=run["attention_backend"],
        overhead=run["overhead"],
        notes=run["notes"],
    )
    return "ok"


def layers_that_fit(wanted: dict[str, Any], memory_bytes: int) -> int:
    """Return how many of Llama2-7B's layers fit into a device, by a rough count.

    Args:
        wanted: the arguments of collect: `opt`, `batch_size`, `seq_len`.
        memory_bytes: of the device.
    """
    methods = set(str(wanted["opt"]).split("+"))
    tokens = int(wanted["batch_size"]) * int(wanted.get("seq_len", 350))
    per_parameter = _bytes_per_parameter(methods)
    # Hidden states and the MLP's, kept for backward; and attention's scores, with their copies.
    kept = tokens * _WIDTH * 60.0
    if "F" not in methods:
        kept += _HEADS * int(wanted.get("seq_len", 350)) * tokens * 10.0
    once = tokens * _VOCABULARY * 14.0 + _OTHER_PARAMETERS * per_parameter + _FIXED_BYTES
    if "R" in methods:
        once += kept
        kept = tokens * _WIDTH * 2.0
    free = _USABLE_SHARE * memory_bytes - once
    return max(1, min(_LAYERS, int(free / (_LAYER_PARAMETERS * per_parameter + kept))))


def _bytes_per_parameter(methods: set[str]) -> float:
    """Return the bytes on the device of a parameter, with its gradient and optimizer state."""
    if methods & {"L", "LFA", "PT"}:
        return 2.3  # frozen bf16, and adapters
    if methods & {"Q", "QL"}:
        return 2.0  # made in bf16 before it is packed
    if "O" in methods:
        return 4.5
    if methods & {"Z1", "Z2", "Z3"}:
        return 18.0  # bf16 weights and gradients, fp32 weights, gradients and two moments
    return 8.0  # bf16 weights, gradients and two moments
