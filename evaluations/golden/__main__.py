"""`make golden OUT=FOLDER`: writes the complete output of tracekit for many traces.

    make golden OUT=FOLDER ARGS="[INPUT …]" [AGAINST=OTHER]

INPUT is a trace, a run folder, or a folder of these. The default is the bundled samples, the public
traces, and the GPU recordings. For each input, OUT gets the rows of every analysis as Parquet, the
breakdown as text and JSON, and the advice. Run it before and after a change. With OTHER, an earlier
OUT, it prints differences and exits with 1 if there are any.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

import duckdb
import pyarrow.parquet
from cli_result import run_here

import tracekit
from tracekit.analysis.catalog import load_catalog
from tracekit.errors import TracekitError

REPO = Path(__file__).resolve().parents[2]
FOLDERS = (REPO / "sample_traces", *(REPO.parent / "shared" / name for name in ("traces", "h200")))
COMMANDS = {
    "breakdown.txt": ("breakdown", "--full"),
    "breakdown.json": ("breakdown", "--format", "json"),
    "advice.txt": ("advise",),
}


def inputs(paths: Iterable[Path]) -> Iterator[Path]:
    """Yield traces and run folders, including those in other folders."""
    for path in paths:
        is_run = (path / "run.json").exists()
        yield from sorted(path.iterdir()) if path.is_dir() and not is_run else [path]


def dump(path: Path, out: Path) -> None:
    """Write the output for one input."""
    out.mkdir(parents=True, exist_ok=True)
    try:
        trace = tracekit.open(path, cache=False)
    except TracekitError as error:
        (out / "error.txt").write_text(f"{error}\n", "utf-8")
        return
    with trace:
        for name in load_catalog().analyses:
            try:
                rows = trace.query(name).to_arrow()
            except TracekitError as error:
                (out / f"{name}.txt").write_text(f"{error}\n", "utf-8")
            else:
                pyarrow.parquet.write_table(rows, out / f"{name}.parquet")
    for name, command in COMMANDS.items():
        shown = run_here([*command, str(path), "--no-cache"], {"COLUMNS": "100"}, out)
        (out / name).write_text(shown.stdout + shown.stderr, "utf-8")


def differences(out: Path, other: Path) -> Iterator[str]:
    """Yield the files that differ between two dumps."""
    names = {
        file.relative_to(folder)
        for folder in (out, other)
        for file in folder.rglob("*")
        if file.is_file()
    }
    for name in sorted(names):
        ours, theirs = out / name, other / name
        if not (ours.exists() and theirs.exists()):
            yield f"{name}: only in {out if ours.exists() else other}"
        elif name.suffix != ".parquet":
            if ours.read_bytes() != theirs.read_bytes():
                yield f"{name}: another text"
        else:
            only = [
                duckdb.execute(
                    "SELECT count(*) FROM (FROM read_parquet(?) EXCEPT ALL FROM read_parquet(?))",
                    [str(one), str(two)],
                ).fetchall()[0][0]
                for one, two in ((ours, theirs), (theirs, ours))
            ]
            if any(only):
                yield f"{name}: {only[0]:,} rows only here, {only[1]:,} only there"


def main() -> None:
    """Write the dump, and compare it."""
    parser = argparse.ArgumentParser(prog="make golden")
    parser.add_argument("out", type=Path)
    parser.add_argument("inputs", type=Path, nargs="*")
    parser.add_argument("--against", type=Path)
    parsed = parser.parse_args()
    given = parsed.inputs or [folder for folder in FOLDERS if folder.is_dir()]
    for path in inputs(given):
        print(path, flush=True)
        dump(path.resolve(), parsed.out / path.parent.name / path.name)
    if parsed.against is not None:
        result = list(differences(parsed.out, parsed.against))
        print(*result or ["no difference"], sep="\n")
        sys.exit(bool(result))


if __name__ == "__main__":
    main()
