"""`tracekit export reproduce TRACE --op aten::mm`: a script that reruns recorded ops."""

from __future__ import annotations

import json
import re
from importlib.resources import files
from pathlib import Path
from typing import Any

import click

from tracekit.cli._options import Reading, reading_options, trace_argument
from tracekit.cli.commands.export import output_option, written_atomically
from tracekit.errors import QueryError
from tracekit.render._text import printable
from tracekit.trace import Trace

_MAX_BYTES = 100_000_000


@click.command(name="reproduce")
@trace_argument
@click.option("--op", metavar="NAME", help="Reproduce only calls of this op, such as aten::mm.")
@click.option(
    "--limit",
    type=click.IntRange(min=1),
    default=30,
    show_default=True,
    metavar="N",
    help="Maximum number of distinct calls; those with the most GPU time come first.",
)
@output_option
@reading_options("rules", "no_cache")
def command(
    traces: tuple[str, ...],
    op: str | None,
    limit: int,
    output: Path,
    force: bool,
    reading: Reading,
) -> None:
    """Generate a PyTorch script that reruns recorded ops.

    Calls have the recorded shapes, types, strides, and scalar arguments; a trace contains no tensor
    data. The script needs only torch and prints the recorded and the new time of each call.
    """
    from tracekit.cli._open import open_traces

    with (
        written_atomically(output, force=force, max_bytes=_MAX_BYTES) as out,
        open_traces(traces, reading) as trace,
    ):
        program, call_count = op_program(trace, op, limit)
        out.write(program.encode())
    click.echo(printable(f"{output}: {call_count} calls; python {output} runs them"), err=True)


_OP = re.compile(r"(?!_|autograd|c10d|load_library|profiler)\w{1,100}::\w{1,100}", re.ASCII)
_TEXTS = ("shapes", "types", "strides", "numbers")


def op_program(trace: Trace, op: str | None, limit: int) -> tuple[str, int]:
    """Return a script that reruns ops of opened traces, and the number of its calls.

    It calls an op once per distinct combination of argument shapes, types, and strides. Without
    `op`, it reruns the ops with the most GPU time.
    """
    is_on_device = any(row["device"] != "cpu" for row in trace.query("timeline").to_dicts())
    cases: list[dict[str, Any]] = []
    for row in trace.query("op_arguments", op=op, limit=0).to_dicts():
        if len(cases) == limit:
            break
        case = _case_of(row, is_on_device=is_on_device)
        if case is not None:
            cases.append(case)
    if not cases:
        raise QueryError(
            f"no call of {op or 'a torch op'} with recorded arguments",
            hint="record with torch.profiler's record_shapes=True",
        )
    program = files("tracekit").joinpath("collectors", "calls", "op_replay.py").read_text("utf-8")
    # Text from a trace is only data: JSON inside a Python string literal.
    lines = "\n".join(f"    json.loads({json.dumps(case, sort_keys=True)!r})," for case in cases)
    return f'{program}\n\nif __name__ == "__main__":\n    main([\n{lines}\n    ])\n', len(cases)


def _case_of(row: dict[str, Any], *, is_on_device: bool) -> dict[str, Any] | None:
    """Return the data of a call for the script, or None if it is not a torch op with arguments."""
    if not _OP.fullmatch(row["op"]) or not row["types"] or not row["op_count"]:
        return None
    try:
        texts = {name: json.loads(row[name] or "[]") for name in _TEXTS}
    except (ValueError, RecursionError):
        return None
    # The file is untrusted and may have other types here.
    if not all(isinstance(one, list) for one in texts.values()):
        return None
    if not all(isinstance(text, str) for text in (*texts["types"], *texts["numbers"])):
        return None
    if any(len(texts[name]) != len(texts["types"]) for name in ("shapes", "numbers")):
        return None
    tensors = [kind for kind in texts["types"] if kind.startswith("c10::") or kind.islower()]
    return {
        **texts,
        "op": row["op"],
        "list_type": tensors[0] if tensors else "float",
        "host_us": None if row["mean_host_ns"] is None else row["mean_host_ns"] / 1000,
        "device_us": row["kernel_ns"] / row["op_count"] / 1000,
        "is_on_device": is_on_device and row["kernel_ns"] > 0,
    }
