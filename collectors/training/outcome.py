"""What is said about a training run that has ended."""

from __future__ import annotations

from pathlib import Path

from tracekit import manifest
from tracekit.errors import WorkloadError
from tracekit.units import GB

from ..run.step_cost import step_cost


def raise_outcome(run: manifest.Manifest, target: Path) -> None:
    """Say what became of a run that did not do well.

    Raises:
        WorkloadError: always.
    """
    if run.outcome == "oom":
        raise WorkloadError(
            f"{target}: out of memory: {run.reason}",
            hint=f"recorded as a result; {_needs_less(run)}",
        )
    raise WorkloadError(f"{target}: {run.reason}", hint=f"the ranks' logs are in {target}/logs")


def _needs_less(run: manifest.Manifest) -> str:
    """Return what would need less memory than a run did."""
    used = set((run.opt or "").split("+"))
    methods = [method for method in ("R", "Z3", "O") if method not in used]
    ways = [f"{' or '.join(methods)} in --opt"] if methods else []
    if (run.batch_size or 1) > 1:
        ways.insert(0, "a smaller --batch-size")
    return f"try {', or '.join([*ways, 'a smaller model or --seq-len'])}"


def summary(run: manifest.Manifest, target: Path) -> list[str]:
    """Return what a person wants to know of a run first, in a few lines."""
    rate = "?" if run.tokens_per_s_mean is None else f"{run.tokens_per_s_mean:,.0f}"
    if run.tokens_per_s_std is not None:
        rate += f" ± {run.tokens_per_s_std:,.0f}"
    size = manifest.peak_bytes(run)
    memory = "peak memory not known" if size is None else f"peak {size / GB:.2f} GB a rank"
    ranks = "1 rank" if run.parallel.world_size == 1 else f"{run.parallel.world_size} ranks"
    what = f"{run.stage} {run.model.name if run.model else ''} {run.opt} ({run.engine}), {ranks}"
    lines = [f"{what}: {rate} tokens/s, {memory}"]
    overhead = run.overhead
    if overhead and overhead.plain_step_ns:
        plain = [ns for repeat in run.repeats for ns in repeat.step_ns]
        lines.append(f"{step_cost(overhead, plain)}; only plain steps count above")
    lines += [f"note: {note}" for note in run.notes]
    lines.append(f"see where the time went: tracekit breakdown {target}")
    return lines
