"""Two processes on one GPU: each trace contains only its own process."""

import os
import subprocess
import sys

from devices import PROGRAMS, on_each_device
from trace_claims import claim_trace


@on_each_device
def test_two_processes_at_once(trial):
    """Both runs end well and add up: waits for the other are idle time or longer kernels."""
    folders = [trial.runs / "shared_device" / name for name in ("one", "two")]
    variables = {**os.environ, "LOOP_STEPS": "14", "LOOP_DEVICE": trial.device.type}
    variables |= {"LOOP_WIDTH": "512"} if trial.is_cuda else {"OMP_NUM_THREADS": "1"}
    started = []
    for folder in folders:
        collect = [*trial.command_line, "collect", "--warmup", "2", "--steps", "3", "--force"]
        program = [sys.executable, str(PROGRAMS / "plain.py")]
        words = [*collect, "--profile-steps", "2", "--out", str(folder), "--", *program]
        started.append(
            subprocess.Popen(
                words,
                env=variables,
                cwd=trial.work,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.PIPE,
                text=True,
            )
        )
    for process, folder in zip(started, folders, strict=True):
        _, errors = process.communicate(timeout=240)
        trial.claim(f"{folder.name} ends well", process.returncode == 0, errors[-400:])
        claim_trace(trial, folder, phases={"forward", "backward"}, linked_at_least_pct=90.0)
