"""Two processes on one GPU: each trace contains only its own process."""

import sys
from concurrent.futures import ThreadPoolExecutor

from devices import PROGRAMS, on_each_device
from trace_claims import claim_trace


@on_each_device
def test_two_processes_at_once(trial):
    """Both runs end well and add up: waits for the other are idle time or longer kernels."""
    folders = [trial.runs / "shared_device" / name for name in ("one", "two")]
    variables = {"LOOP_STEPS": "14", "LOOP_DEVICE": trial.device.type}
    variables |= {"LOOP_WIDTH": "512"} if trial.is_cuda else {}

    def record(folder):
        collect = [*trial.command_line, "collect", "--warmup", "2", "--steps", "3", "--force"]
        program = [sys.executable, PROGRAMS / "plain.py"]
        words = [*collect, "--profile-steps", "2", "--out", folder, "--", *program]
        return trial.command(*words, **variables)

    with ThreadPoolExecutor(2) as pool:
        results = list(pool.map(record, folders))
    for done, folder in zip(results, folders, strict=True):
        trial.claim(f"{folder.name} ends well", done.exit_code == 0, done.stderr[-400:])
        claim_trace(trial, folder, phases={"forward", "backward"}, linked_at_least_pct=90.0)
