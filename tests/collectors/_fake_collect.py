"""Stands in for `python -m tracekit.collectors` where a test is about the sweep alone.

FAKE_COLLECT is a JSON object: `largest_batch` by opt (larger ones are out of memory; a probe and
the measured run may differ), and lists of opts: `failed` (a run folder says so), `refused` (an
error before there is a folder), `crashed`, `hanging`, `full_disk`. Every call is a line in `log`.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

from tracekit import manifest
from tracekit.collectors.command_line import parsed
from tracekit.collectors.options import OPTIONS, validated
from tracekit.collectors.run.folder import RunFolder
from tracekit.collectors.training.result import make_manifest
from tracekit.collectors.training.spec import make_spec
from tracekit.errors import StoreError, WorkloadError


def main(arguments: list[str]) -> int:
    behavior = json.loads(os.environ["FAKE_COLLECT"])
    values = validated(parsed(OPTIONS, arguments))
    spec = make_spec(values, ["python", "-m", "tracekit.collectors", *arguments])
    out = Path(values["out"])
    with Path(behavior["log"]).open("a") as log:
        log.write(f"{out.name} {spec.opt_text} {spec.batch_size} {spec.measured_count}\n")
    if spec.opt_text in behavior.get("refused", []):
        sys.stderr.write("note: something\nerror: deepspeed is not installed\nhint: install it\n")
        return WorkloadError.exit_code
    if spec.opt_text in behavior.get("full_disk", []):
        sys.stderr.write(f"error: {out}: the run folder cannot be written: No space left\n")
        return StoreError.exit_code
    is_probe = out.parent.name.endswith(".probes")
    with RunFolder(out, force=bool(values.get("force"))) as folder:
        if spec.opt_text in behavior.get("crashed", []):
            os.kill(os.getpid(), signal.SIGKILL)
        if spec.opt_text in behavior.get("hanging", []):
            _hang(Path(behavior["log"]))
        outcome: manifest.Outcome = "ok"
        reason = None
        limits = behavior.get("largest_batch", {}).get(spec.opt_text)
        if limits is not None and spec.batch_size > limits["probe" if is_probe else "measured"]:
            outcome, reason = "oom", "rank 0: can't allocate memory"
        if spec.opt_text in behavior.get("failed", []):
            outcome, reason = "failed", "rank 1 of 2 died: signal SIGSEGV"
        run = make_manifest(spec, [], outcome="failed", reason=reason)
        run.outcome = outcome
        run.tokens_per_s_mean = 1000.0 if outcome == "ok" else None
        folder.commit(run)
    return 0 if outcome == "ok" else WorkloadError.exit_code


def _hang(log: Path) -> None:
    """Start a process, as the launcher starts its ranks, and end it when told to."""
    rank = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])
    log.with_suffix(".pids").write_text(f"{os.getpid()} {rank.pid}")
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(130))
    try:
        while True:
            time.sleep(0.05)
    finally:
        rank.kill()
        rank.wait()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
