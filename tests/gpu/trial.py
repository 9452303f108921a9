"""A test on a device: its runs, claims, and measurements."""

import json
import math
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
from cli_result import CliResult
from processes import finished

_COMMAND_S = 280


@dataclass
class Trial:
    """Runs, claims, and figures of a test, which fails at its end with all `broken` claims."""

    device: Any
    runs: Path
    work: Path
    record: Callable[[str, Any], None]
    broken: list[str] = field(default_factory=list)

    @property
    def is_cuda(self):
        return bool(self.device.type == "cuda")

    @property
    def command_line(self):
        return [str(Path(sys.executable).with_name("tracekit"))]

    def needs(self, *packages):
        for name in packages:
            if find_spec(name) is None:
                pytest.skip(f"{name} is not installed")

    def claim(self, text, holds, measured=None, wanted=""):
        self.figures(**{text: measured if holds else f"does not hold: {measured}"})
        if not holds:
            self.broken.append(f"{text}: {measured}" + (f", wanted {wanted}" if wanted else ""))

    def claim_close(self, text, measured, wanted, tolerance_pct):
        apart_pct = 100 * abs(measured - wanted) / abs(wanted) if wanted else math.inf
        figures = {"measured": measured, "wanted": wanted, "apart_pct": round(apart_pct, 3)}
        self.claim(text, apart_pct <= tolerance_pct, figures, f"within {tolerance_pct:g} %")

    def figures(self, **values):
        for name, value in values.items():
            self.record(name, json.loads(json.dumps(value, default=str)))

    def command(self, *words, **variables):
        print("$", *words)
        own = {"COLUMNS": "120", "TRACEKIT_CACHE_DIR": str(self.runs.parents[1] / "cache")}
        if not self.is_cuda:
            own |= {"CUDA_VISIBLE_DEVICES": "", "OMP_NUM_THREADS": "1"}
        done = finished(*words, cwd=self.work, timeout_s=_COMMAND_S, **own | variables)
        print(done.stdout, done.stderr, f"exit code {done.returncode}", sep="\n")
        return CliResult(done.stdout, done.stderr, done.returncode)

    def tracekit(self, *words, **options):
        """Run `tracekit`: `batch_size=2` becomes `--batch-size 2`, and None is omitted."""
        given = [*self.command_line, *words]
        for name, value in options.items():
            if value is not None and value is not False:
                option = f"--{name.replace('_', '-')}"
                given += [option] if value is True else [option, value]
        return self.command(*given)

    def collect(self, folder, *words, **options):
        out = self.runs / folder
        done = self.tracekit("collect", *words, **options, out=out, force=True)
        assert (out / "run.json").is_file(), done.stderr
        manifest = json.loads((out / "run.json").read_text("utf-8"))
        assert done.exit_code == 0 or manifest["outcome"] == "oom", done.stderr
        return manifest

    def training_step(self, *, compiled=False, **optimizer):
        """Return a step of a decoder; on a GPU it is host-bound, so that recording lengthens it."""
        import tiny
        import torch

        model = tiny.decoder(512 if self.is_cuda else 16).to(self.device)
        made = torch.optim.AdamW(model.parameters(), lr=1e-3, **optimizer)
        called = torch.compile(model) if compiled else model
        ids = next(tiny.batches()).to(self.device)

        def step():
            made.zero_grad(set_to_none=True)
            called(ids, labels=ids).backward()
            made.step()

        return step

    def times_ns(self, step, block_count, calls=1):
        """Return the mean time of a call in each of several blocks of calls."""
        from tracekit.collectors.machine import accelerator

        times = []
        for _ in range(block_count):
            accelerator.synchronize(self.device)
            begin = time.perf_counter_ns()
            for _ in range(calls):
                step()
            accelerator.synchronize(self.device)
            times.append((time.perf_counter_ns() - begin) / calls)
        return times

    def profile(self, step, **options):
        """Profile steps, each a call of a function, and return the trace; see `Profile`."""
        from tracekit.collectors import ranges
        from tracekit.collectors.profiler.profile import Profile

        path = self.work / "rank0.json.gz"
        with Profile(path, {"rank": 0, "world_size": 1}, **options) as profile:
            for number in range(profile.step_count):
                with ranges.step(number):
                    step()
                profile.step()
        return path

    def table(self, *words, about):
        """Ask for a table of the runs in folders of a pattern, which must be there; keep it."""
        folders = sorted(path.parent for path in self.runs.glob(f"{about}/run.json"))
        if not folders:
            pytest.skip("there is no run to ask")
        done = self.tracekit(*words, *folders, format="markdown")
        assert done.exit_code == 0, done.stderr
        kept = self.runs.parents[1] / "tables" / f"{'_'.join(words)}_{self.device.type}.md"
        kept.parent.mkdir(exist_ok=True)
        kept.write_text(done.stdout, "utf-8")
