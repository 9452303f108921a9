"""Every method and engine of `tracekit collect` on a small model, in separate processes."""

import json
import math
import shutil

from devices import each
from trace_claims import claim_training
from training_cases import CASES, RANKS, SMALL_LLAMA, arguments_of

from tracekit import manifest


def packages_of(values):
    opt, engine = values["opt"], values.get("engine")
    has_zero = "Z" in opt and engine != "fsdp2"
    needed = {
        "transformers": True,
        "deepspeed": has_zero or engine == "deepspeed",
        "bitsandbytes": "Q" in opt,
        "peft": values.get("stage") == "finetune",
    }
    return [name for name, is_needed in needed.items() if is_needed]


@each("case", CASES, on_cpu=["pretrain R"])
def test_it_trains_and_its_trace_is_right(case, trial):
    """The loss falls on a fixed batch, memory is counted, the trace satisfies what any must."""
    from tracekit.collectors.process import launch

    values = CASES[case]
    trial.needs(*packages_of(values))
    model = trial.work / "small.json"
    model.write_text(json.dumps(SMALL_LLAMA), "utf-8")
    # The script reads the cases of a folder, and makes their run folders there.
    folder = trial.work / case
    (folder / "logs").mkdir(parents=True)
    arguments = {**arguments_of(case, model), "profile_steps": 2}
    (trial.work / "cases.json").write_text(json.dumps({case: arguments}), "utf-8")
    script = [str(RANKS), str(trial.work), trial.device.type]
    hidden = {} if trial.is_cuda else {"CUDA_VISIBLE_DEVICES": "", "OMP_NUM_THREADS": "1"}
    failure = launch.run_ranks(script, 1, trial.work, environment=hidden)
    assert failure is None, f"{failure.exit_description}: {failure.log.read_text('utf-8')[-4000:]}"
    shutil.copytree(folder, trial.runs / "methods" / case.replace(":", "-").replace(" ", "_"))
    run = manifest.read(folder)
    first, last = run.extra["first_losses"][0], run.extra["last_losses"][0]
    falls = math.isfinite(last) and last < first
    trial.claim("the loss falls on a fixed batch", falls, [first, last])
    allocated = run.peak_memory[0].device_allocated_bytes
    if trial.is_cuda:
        trial.claim("memory of the device is counted", bool(allocated), allocated)
    config = run.extra.get("deepspeed_config")
    trial.figures(
        tokens_per_s=run.tokens_per_s_mean,
        peak_device_bytes=allocated,
        attention_backend=run.attention_backend,
        notes=run.notes,
        uses_torch_adam=config and config["optimizer"]["params"]["torch_adam"],
    )
    claim_training(trial, folder, values["opt"])
