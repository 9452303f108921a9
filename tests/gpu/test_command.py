"""`tracekit collect` and typical commands after it."""

from devices import on_each_device
from trace_claims import claim_training

_ANALYSES = ("gemms", "mfu", "roles", "compute_memory", "launch_delays", "queue_length", "overlap")
_REFUSED = 5


@on_each_device
def test_a_run_is_collected_and_asked(trial):
    """`collect`, `breakdown`, and seven analyses succeed, or refuse without data."""
    trial.needs("transformers")
    made = trial.collect(
        "command",
        *("--stage", "pretrain", "--opt", "R", "--model", "tiny", "--seq-len", 64),
        *("--warmup", 1, "--steps", 2, "--repeats", 2, "--profile-steps", 2, "--with-stack"),
    )
    folder = trial.runs / "command"
    claim_training(trial, folder, "R")
    allocated = made["peak_memory"][0]["device_allocated_bytes"]
    is_right = bool(allocated) if trial.is_cuda else allocated is None
    trial.claim("memory of the device is counted", is_right, allocated)
    done = trial.tracekit("breakdown", folder)
    trial.claim("breakdown ends well", done.exit_code == 0, done.stderr[-400:])
    (folder / "breakdown.txt").write_text(done.stdout, "utf-8")
    for name in _ANALYSES:
        done = trial.tracekit("query", name, folder, "--format", "json")
        is_well = done.exit_code in (0, _REFUSED)
        trial.claim(f"{name} ends well or refuses", is_well, done.stderr[-400:])
        trial.figures(**{f"{name}_rows": len(done.json()) if done.exit_code == 0 else "refused"})
