"""Compares this tree with another commit: pairs of processes, and CPU time by stage.

    make benchmark [AGAINST=COMMIT] [ARGS="--repeats 9 --only cold"]

Both are installed in temporary environments and run alternately. For each command, the ratios (this
tree / other commit) of wall time, CPU time, and memory are printed, as median, minimum, and
maximum. On a busy machine, only CPU time is meaningful.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

from _measure import Contestant, compete, measure
from made_runs import Layout, make_run

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
SMALL = ROOT / "sample_traces" / "pretrain_R+Z3" / "rank0.json.gz"
LARGE = ROOT.parent / "shared" / "traces" / "tl_h100_owlv2_large.json.gz"
TEN_EVENTS = "import sys, tracekit; tracekit.open(sys.argv[1], cache=False).query('timeline')"
_STAGE_REPEATS = 3


def last_tag() -> str:
    """Return the name of the last tag.

    Raises:
        SystemExit: the repository has no tag.
    """
    command = ["git", "-C", ROOT, "describe", "--tags", "--abbrev=0"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit("no tag to compare with; use make benchmark AGAINST=COMMIT")
    return done.stdout.strip()


def installed(tree: Path, folder: Path) -> Path:
    """Install a tree into a new environment; return its `bin` folder."""
    subprocess.run([sys.executable, "-m", "venv", folder], check=True)
    pip = [folder / "bin" / "python", "-m", "pip", "--disable-pip-version-check", "install"]
    constraints = ROOT / "constraints.txt"
    subprocess.run([*pip, "--quiet", "--quiet", "--constraint", constraints, tree], check=True)
    return folder / "bin"


def ten_events(folder: Path) -> Path:
    """Write a trace of three launches and their kernels."""
    common = {"ph": "X", "pid": 1, "tid": 1, "dur": 100}
    events = [{**common, "cat": "user_annotation", "name": "ProfilerStep#0", "ts": 0, "dur": 900}]
    for number in range(3):
        link = {"External id": number + 1, "correlation": number + 1}
        at = 200 * number + 100
        device = {"pid": 0, "tid": 7, "args": {**link, "device": 0, "stream": 7}}
        events += [
            {**common, "cat": "cpu_op", "name": "aten::mm", "ts": at, "args": link},
            {**common, "cat": "cuda_runtime", "name": "cudaLaunchKernel", "ts": at + 9, "dur": 9}
            | {"args": link},
            {**common, "cat": "kernel", "name": "gemm", "ts": at + 50, **device},
        ]
    path = folder / "ten_events.json"
    path.write_text(json.dumps({"schemaVersion": 1, "traceEvents": events}))
    return path


def ranks(folder: Path) -> Path:
    """Create a synthetic run of 64 ranks."""
    make_run(folder, Layout(data=4, tensor=4, pipeline=4), microbatches=4)
    return folder


def commands(bin_folder: Path, large: Path, folder: Path, gb: float) -> dict[str, list[object]]:
    """Return the measured commands by name."""
    tracekit, python = bin_folder / "tracekit", bin_folder / "python"
    out = folder / f"out-{bin_folder.parent.name}"
    cold = [tracekit, "breakdown", "--no-cache"]
    result: dict[str, list[object]] = {
        "--help": [tracekit, "--help"],
        "ten events": [python, "-c", TEN_EVENTS, folder / "ten_events.json"],
        "breakdown, small, cold": [*cold, SMALL],
        "breakdown, small, warm": [tracekit, "breakdown", SMALL],
        "breakdown, large, cold": [*cold, large],
        "breakdown, large, warm": [tracekit, "breakdown", large],
        "report, large, cold": [tracekit, "report", "--no-cache", large, "-o", f"{out}.html"],
        "Perfetto, large, cold": [
            *(tracekit, "export", "perfetto", "--no-cache", large),
            *("-o", f"{out}.pftrace", "--force"),
        ],
        "breakdown, 64 ranks, cold": [*cold, folder / "ranks"],
    }
    if gb:
        name = f"ingest, {gb:g} GB"
        result[name] = [tracekit, "ingest", folder / "big.json", "-o", f"{out}.duckdb", "--force"]
    return result


def compare(new: Contestant, old: Contestant, repeats: int) -> None:
    """Measure two commands alternately, and print the first relative to the second."""
    compete([new, old], repeats)
    parts = []
    for what in ("wall_s", "cpu_s", "peak_bytes"):
        pairs = zip(new.costs, old.costs, strict=True)
        ratios = [getattr(one, what) / getattr(other, what) for one, other in pairs]
        middle = statistics.median(ratios)
        parts.append(f"{middle:6.2f} ({min(ratios):4.2f} to {max(ratios):4.2f})")
    print(f"{new.name:<26} {new.wall_s:8.3f} {new.cpu_s:8.3f}   " + "  ".join(parts), flush=True)


def stages(bin_folder: Path, trace: Path, folder: Path) -> dict[str, float]:
    """Return the minimum CPU time of each stage of a breakdown, ms; empty if unknown."""
    least: dict[str, float] = {}
    out = folder / "stages.json"
    for _ in range(_STAGE_REPEATS):
        command = [bin_folder / "python", HERE / "_stages.py", trace, out]
        if subprocess.run(command, check=False, stderr=subprocess.DEVNULL).returncode:
            return {}
        for name, cpu_ms in json.loads(out.read_text()).items():
            least[name] = min(cpu_ms, least.get(name, cpu_ms))
    return least


def print_stages(new: dict[str, float], old: dict[str, float], least_ms: float = 1) -> None:
    """Print stages in columns, except those with negligible times in both."""
    for name in dict.fromkeys((*new, *old)):
        one, other = new.get(name), old.get(name)
        if max(one or 0, other or 0) >= least_ms:
            texts = ["       –" if ms is None else f"{ms:8.1f}" for ms in (one, other)]
            ratio = f"{one / other:6.2f}" if one is not None and other else "     –"
            print(f"{name:<40} {texts[0]} {texts[1]}   {ratio}")


def main() -> None:
    """Install both, measure, and print the results."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--against", help="a commit; default: the last tag")
    parser.add_argument("--trace", type=Path, default=LARGE, help="the large trace")
    parser.add_argument("--only", default="", help="text in the names of commands to run")
    parser.add_argument("--gb", type=float, default=1, help="size to ingest; 0 to skip")
    parser.add_argument("--repeats", type=int, default=5)
    args = parser.parse_args()
    against = args.against or last_tag()
    with tempfile.TemporaryDirectory(prefix="tracekit-benchmark-") as name:
        folder = Path(name)
        tree = folder / "tree"
        subprocess.run(
            ["git", "-C", ROOT, "worktree", "add", "--quiet", "--detach", tree, against], check=True
        )
        try:
            bins = [installed(ROOT, folder / "new"), installed(tree, folder / "old")]
        finally:
            subprocess.run(["git", "-C", ROOT, "worktree", "remove", "--force", tree], check=True)
        ten_events(folder)
        new, old = (commands(one, args.trace, folder, args.gb) for one in bins)
        chosen = [what for what in new if args.only in what]
        if any("ranks" in what for what in chosen):
            ranks(folder / "ranks")
        if any("ingest" in what for what in chosen):
            maker = [sys.executable, HERE / "make_trace.py", args.trace, folder / "big.json"]
            measure([*maker, "--gb", str(args.gb)])
        print(
            f"against {against}\n{'':<26}   wall s    CPU s   "
            + "  ".join(f"{what:<22}" for what in ("wall", "CPU", "memory"))
        )
        for what in chosen:
            caches = [{"TRACEKIT_CACHE_DIR": str(one.parent / "cache")} for one in bins]
            compare(
                Contestant(what, new[what], caches[0]),
                Contestant(what, old[what], caches[1]),
                args.repeats,
            )
        for trace in (SMALL, args.trace):
            print(f"\nCPU ms by stage: {trace.name}{'new':>14}{'old':>9}{'ratio':>9}")
            print_stages(*(stages(one, trace, folder) for one in bins))


if __name__ == "__main__":
    main()
