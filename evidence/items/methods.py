"""Every method and engine of collect, one after the other in one process, on a small model.

The cases are those of the collectors' own tests on two CPU ranks. An error that leaves the CUDA
context unusable ends the process; a new one in its place does the rest.
"""

from __future__ import annotations

import gc
import json
import math
import os
import sys
from typing import Any

from evidence._records import Case, Record, is_fatal
from evidence._setting import Setting
from evidence._trace_checks import check_training

SMALL_LLAMA = {
    "model_type": "llama",
    "hidden_size": 64,
    "intermediate_size": 160,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 4,
    "vocab_size": 256,
    "max_position_embeddings": 128,
}
_COMMON = {
    "stage": "pretrain",
    "seq_len": 32,
    "fixed_batch": True,
    "learning_rate": 3e-3,
    "warmup": 1,
    "steps": 4,
    "repeats": 2,
    "profile_steps": 2,
}
# A prompt of a few tokens learns slowly.
_OF_PROMPT_TUNING = {"learning_rate": 0.3}


def cases(group: str) -> dict[str, dict[str, Any]]:
    """Return the runs of a group by name: stage, opt, and what differs from the defaults."""
    return {
        "pretrain ddp": {
            **_named("pretrain", ("Naive", "R", "F", "F+R")),
            "fp16 Naive": {"opt": "Naive", "precision": "fp16"},
            "fp32 Naive": {"opt": "Naive", "precision": "fp32"},
        },
        "finetune ddp": _named("finetune", ("Naive", "L", "LFA", "PT", "L+F+R")),
        "4-bit": {
            **_named("pretrain", ("Q", "R+Q", "Q+Z2", "Q+Z3")),
            **_named("finetune", ("QL", "QL+R", "QL+Z2", "QL+Z3+O")),
            "fsdp2 QL+Z3": {"stage": "finetune", "opt": "QL+Z3", "engine": "fsdp2"},
        },
        "pretrain deepspeed": {
            **_named("pretrain", ("Z1", "Z2", "Z3", "R+Z3", "Z2+O", "Z3+O")),
            "sharded while made": {"opt": "R+Z3"},
            "deepspeed Naive": {"opt": "Naive", "engine": "deepspeed"},
            "fp32 Z2": {"opt": "Z2", "precision": "fp32"},
        },
        "finetune deepspeed": _named("finetune", ("L+Z2", "L+R+Z3", "PT+Z3", "L+Z3+O")),
        "fsdp2": {
            **{f"fsdp2 {opt}": {"opt": opt, "engine": "fsdp2"} for opt in ("Z2", "R+Z3", "Z3+O")},
            "fsdp2 L+R+Z3": {"stage": "finetune", "opt": "L+R+Z3", "engine": "fsdp2"},
            "fp32 fsdp2 Z2": {"opt": "Z2", "precision": "fp32", "engine": "fsdp2"},
        },
        "gradient compression": _named(
            "pretrain", ("GC:powersgd", "GC:acpsgd", "GC:topk", "GC:signsgd")
        ),
    }[group]


def run(setting: Setting, record: Record) -> None:
    """Run the cases of a group; those that a file says were done are left out."""
    os.environ.update(RANK="0", LOCAL_RANK="0", WORLD_SIZE="1", LOCAL_WORLD_SIZE="1")
    import torch

    from tracekit.collectors.process.distributed import device_of, place_in, process_group

    model = setting.work_folder / "small.json"
    model.write_text(json.dumps(SMALL_LLAMA), "utf-8")
    done_file = setting.work_folder / "done"
    done = done_file.read_text("utf-8").splitlines() if done_file.is_file() else []
    wanted = cases(setting.arguments["group"])
    chosen = setting.arguments.get("cases", list(wanted))
    place = place_in(os.environ)
    assert place is not None
    device = device_of(place)
    with process_group(place, device, setting.work_folder / f"store{len(done)}"):
        for name in chosen:
            if name in done:
                continue
            with done_file.open("a", encoding="utf-8") as file:
                file.write(f"{name}\n")
            try:
                with record.case(name) as case:
                    _train(case, setting, name, {"model": str(model), **wanted[name]}, device)
            except Exception as error:
                if not is_fatal(error):
                    raise
                print("the CUDA context is lost: a new process does the rest", flush=True)
                os.execv(sys.executable, [sys.executable, *sys.argv])
            gc.collect()
            if setting.host.has_cuda:
                torch.cuda.empty_cache()


def _train(case: Case, setting: Setting, name: str, values: dict[str, Any], device: Any) -> None:
    """Train one case and hold what it left against what it must be."""
    from tracekit import manifest
    from tracekit.collectors.process.distributed import Place
    from tracekit.collectors.training.engines import deepspeed
    from tracekit.collectors.training.result import RankResult, make_manifest
    from tracekit.collectors.training.spec import make_spec
    from tracekit.collectors.training.train import train

    if "PT" in values["opt"].split("+"):
        values = {**_OF_PROMPT_TUNING, **values}
    # A model as small as these is made whole otherwise.
    deepspeed.WHOLE_MODEL_SHARE = 0.0 if name == "sharded while made" else 1.0
    spec = make_spec({**_COMMON, **values}, ["evidence"], world_size=1)
    folder = setting.runs_folder / "methods" / name.replace(":", "-").replace(" ", "_")
    (folder / "logs").mkdir(parents=True)
    result = RankResult(rank=0)
    train(spec, Place(0, 0, 1), device, folder, result, lambda _: None)
    run = make_manifest(spec, [result])
    manifest.write(run, folder)
    first, last = run.extra["first_losses"][0], run.extra["last_losses"][0]
    falls = math.isfinite(last) and last < first
    case.claim("the loss falls on a fixed batch", falls, [first, last])
    rank = run.peak_memory[0]
    if setting.host.has_cuda:
        allocated = rank.device_allocated_bytes
        case.claim("memory of the device is counted", bool(allocated), allocated)
    case.figure(
        tokens_per_s=run.tokens_per_s_mean,
        peak_device_bytes=rank.device_allocated_bytes,
        attention_backend=run.attention_backend,
        notes=run.notes,
        uses_torch_adam=_uses_torch_adam(run.extra),
    )
    check_training(case, folder, values["opt"], has_cuda=setting.host.has_cuda)


def _uses_torch_adam(extra: dict[str, Any]) -> bool | None:
    """Tell whether DeepSpeed was given torch's AdamW; None without DeepSpeed."""
    config = extra.get("deepspeed_config")
    return None if config is None else bool(config["optimizer"]["params"]["torch_adam"])


def _named(stage: str, opts: tuple[str, ...]) -> dict[str, dict[str, Any]]:
    return {f"{stage} {opt}": {"stage": stage, "opt": opt} for opt in opts}
