"""Replacement for `python -m tracekit.collectors` in tests of the sweep.

FAKE_COLLECT is a JSON object: `largest_batch` by opt (larger batches run out of memory; a probe and
the measured run may differ), and lists of opts: `failed`, `refused` (before a folder exists),
`crashed`, `hanging`, `full_disk`. Every call is a line in the file `log`.
"""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

from tracekit.collectors.command_line import parsed
from tracekit.collectors.options import OPTIONS, validated
from tracekit.collectors.run.folder import RunFolder
from tracekit.collectors.training.result import make_manifest
from tracekit.collectors.training.spec import make_spec
from tracekit.errors import StoreError, WorkloadError


def main(arguments):
    behavior = json.loads(os.environ["FAKE_COLLECT"])
    values = validated(parsed(OPTIONS, arguments))
    spec = make_spec(values, ["python", "-m", "tracekit.collectors", *arguments])
    out = Path(values["out"])
    with Path(behavior["log"]).open("a") as log:
        log.write(f"{out.name} {spec.opt_text} {spec.batch_size} {spec.measured_count}\n")
    does = {way for way in behavior if spec.opt_text in behavior[way] and way != "log"}
    if "refused" in does:
        sys.stderr.write("note: something\nerror: deepspeed is not installed\nhint: install it\n")
        return WorkloadError.exit_code
    if "full_disk" in does:
        sys.stderr.write(f"error: {out}: No space left\n")
        return StoreError.exit_code
    with RunFolder(out, force=bool(values.get("force"))) as folder:
        if "crashed" in does:
            return -signal.SIGKILL
        if "hanging" in does:
            _hang(Path(behavior["log"]))
        outcome = "failed" if "failed" in does else "ok"
        reason = "rank 1 of 2 died: signal SIGSEGV" if "failed" in does else None
        limits = behavior.get("largest_batch", {}).get(spec.opt_text)
        part = "probe" if out.parent.name.endswith(".probes") else "measured"
        if limits is not None and spec.batch_size > limits[part]:
            outcome, reason = "oom", "rank 0: can't allocate memory"
        run = make_manifest(spec, [], outcome="failed", reason=reason)
        run.outcome = outcome
        run.tokens_per_s_mean = 1000.0 if outcome == "ok" else None
        folder.commit(run)
    return 0 if outcome == "ok" else WorkloadError.exit_code


def _hang(log):
    rank = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
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
