"""What may be chosen of a trace to export or to look at."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from tracekit.cli._options import ceilings_option, no_cache_option, rules_option, trace_argument
from tracekit.errors import UsageError

if TYPE_CHECKING:
    from tracekit.export.selection import Selection

_NUMBERS = re.compile(r"(\d{1,9})(?:-(\d{1,9}))?")
_TIME = re.compile(r"(\d{1,12}(?:\.\d{1,9})?)(ns|us|µs|ms|s)")
_SIZE = re.compile(r"(\d{1,12}(?:\.\d{1,3})?)(MB|GB)")
_MOST_NUMBERS = 1_000_000

_NS = {"ns": 1, "us": 1_000, "µs": 1_000, "ms": 1_000_000, "s": 1_000_000_000}
_BYTES = {"MB": 1_000_000, "GB": 1_000_000_000}

F = TypeVar("F", bound=Callable[..., Any])


def selection_options(command: F) -> F:
    """Give a command the traces, what is chosen of them, and how they are opened."""
    options = (
        no_cache_option,
        ceilings_option,
        rules_option,
        click.option(
            "--max-size",
            default="2GB",
            show_default=True,
            metavar="SIZE",
            help="Stop, and leave nothing, where the file becomes larger: 500MB, 4GB.",
        ),
        click.option("--no-args", is_flag=True, help="Leave out the arguments of events."),
        click.option(
            "--to",
            "to_time",
            metavar="TIME",
            help="Only what begins before: 900ms, 1.5s since the first event of all chosen ranks.",
        ),
        click.option(
            "--from",
            "from_time",
            metavar="TIME",
            help="Only what ends after: 200us, 1.2s since the first event of all chosen ranks.",
        ),
        click.option("--steps", metavar="N,N-N", help="Only these steps: 3,5-7."),
        click.option("--ranks", metavar="N,N-N", help="Only these ranks: 0-3,8."),
        trace_argument,
    )
    for option in options:
        command = option(command)
    return command


def selection_of(
    ranks: str | None, steps: str | None, from_time: str | None, to_time: str | None
) -> Selection:
    """Return what the options choose.

    Raises:
        UsageError: an option cannot be read.
    """
    from tracekit.export.selection import Selection

    chosen = Selection(
        None if ranks is None else _numbers("--ranks", ranks),
        None if steps is None else _numbers("--steps", steps),
        None if from_time is None else _scaled("--from", from_time, _TIME, _NS, "1.5s or 200us"),
        None if to_time is None else _scaled("--to", to_time, _TIME, _NS, "1.5s or 200us"),
    )
    if chosen.from_ns is not None and chosen.to_ns is not None and chosen.to_ns <= chosen.from_ns:
        raise UsageError("--to is not after --from")
    return chosen


def size_of(text: str) -> int:
    """Return the bytes of a size such as 500MB.

    Raises:
        UsageError: it cannot be read.
    """
    return _scaled("--max-size", text, _SIZE, _BYTES, "500MB or 4GB")


def _numbers(option: str, text: str) -> frozenset[int]:
    found: set[int] = set()
    for item in text.split(","):
        match = _NUMBERS.fullmatch(item.strip())
        if match is None:
            raise UsageError(f"{option}: {item.strip()!r} is no number or range, such as 0-3,8")
        first, last = int(match[1]), int(match[2] or match[1])
        if last < first or last - first >= _MOST_NUMBERS:
            raise UsageError(f"{option}: {item.strip()!r} is no range from a smaller number")
        found.update(range(first, last + 1))
    return frozenset(found)


def _scaled(
    option: str, text: str, form: re.Pattern[str], factors: dict[str, int], example: str
) -> int:
    from decimal import Decimal

    match = form.fullmatch(text.strip())
    if match is None:
        raise UsageError(f"{option}: {text!r} cannot be read", hint=f"for example {example}")
    return int(Decimal(match[1]) * factors[match[2]])


def output_option(command: F) -> F:
    """Give a command the file that it writes."""
    command = click.option("--force", is_flag=True, help="Replace the file if it exists.")(command)
    return click.option(
        "-o",
        "--output",
        type=click.Path(path_type=Path),
        metavar="FILE",
        required=True,
        help="The file to write; - for stdout.",
    )(command)
