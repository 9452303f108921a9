"""Arguments and options that several commands share."""

from __future__ import annotations

import functools
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click
from msgspec import Struct

from tracekit.collectors.command_line import DURATION, SIZE
from tracekit.errors import UsageError
from tracekit.render import FORMATS

if TYPE_CHECKING:
    from tracekit.engine.choice import EngineChoice

Command = TypeVar("Command", bound=Callable[..., Any])

trace_argument = click.argument("traces", metavar="TRACE...", nargs=-1, required=True)

format_option = click.option(
    "--format",
    "format_name",
    type=click.Choice(FORMATS),
    default="table",
    show_default=True,
    help="Output format. csv and json contain exact values in base units.",
)

wide_option = click.option(
    "--wide", is_flag=True, help="Show all columns of a table, regardless of terminal width."
)

full_wide_option = click.option(
    "--wide", is_flag=True, help="With --full: show all columns, regardless of terminal width."
)

baselines_option = click.option(
    "--baselines",
    metavar="DIR",
    help="Folder or URL of the baselines.  [default: .tracekit/baselines]",
)

per_option = click.option(
    "--per",
    type=click.Choice(["step", "window"]),
    help="Unit to normalize times by.  [default: step if any are marked, else window]",
)

skip_option = click.option(
    "--skip",
    type=click.IntRange(min=0),
    default=0,
    metavar="N",
    help="Skip the first N steps of each run.",
)

no_cache_option = click.option(
    "--no-cache", is_flag=True, help="Read the trace again, and do not use the cache."
)

rules_option = click.option(
    "--rules",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="File with additional rules for kernel classes, ranges, and fusions.",
)

queries_option = click.option(
    "--queries",
    type=click.Path(path_type=Path),
    metavar="DIR",
    multiple=True,
    help="Folder with your own SQL analyses; may be repeated.  [default: TRACEKIT_QUERIES]",
)

peak_rates_option = click.option(
    "--peak-rates",
    type=click.Path(path_type=Path),
    metavar="RUN",
    help="Run of tracekit bench on the same devices, for measured peak rates.  [default: "
    "benchmarks in the run folder of TRACE]",
)


capture_option = click.option(
    "--capture",
    metavar="FILE",
    multiple=True,
    help="Trace recorded while the CUDA graphs were captured; it supplies the op, shapes, and "
    "module of replayed kernels. May be repeated.",
)


unprofiled_step_option = click.option(
    "--unprofiled-step",
    type=DURATION,
    metavar="TIME",
    help="Unprofiled step time, such as 41.4ms.  [default: from run.json]",
)

step_option = click.option(
    "--step",
    metavar="PATTERN",
    help="Names of ranges that mark steps, such as 'denoising_step_*'.  [default: "
    "tk/step/N, ProfilerStep#N, Optimizer.step]",
)

recorded_option = click.option(
    "--recorded",
    "is_recorded",
    is_flag=True,
    help="Show figures of the profiled run, not the unprofiled one.",
)


class Reading(Struct, frozen=True):
    """Options for reading traces, one per field.

    Attributes:
        queries: folders with the user's SQL files.
        rules: additional classification rules.
        capture: traces that recorded the capture of CUDA graphs.
        peak_rates: measured peak rates of devices.
        unprofiled_step: duration of an unprofiled step, ns.
        step: pattern for the names of ranges that mark steps.
        engine: engine for reading the traces of many ranks.
    """

    queries: tuple[Path, ...] = ()
    rules: Path | None = None
    capture: tuple[str, ...] = ()
    peak_rates: Path | None = None
    unprofiled_step: int | None = None
    step: str | None = None
    no_cache: bool = False
    engine: EngineChoice | None = None


def reading_options(*names: str) -> Callable[[Command], Command]:
    """Return a decorator that adds options for reading traces, passed as `reading`.

    Args:
        *names: fields of :class:`Reading`.
    """

    def decorate(command: Command) -> Command:
        @functools.wraps(command)
        def with_reading(*args: Any, **options: Any) -> Any:
            reading = Reading(**{name: options.pop(name) for name in names})
            return command(*args, reading=reading, **options)

        # In reverse, so that the help shows them in this order.
        for name in reversed(Reading.__struct_fields__):
            if name in names:
                with_reading = _READING_OPTIONS[name](with_reading)
        return with_reading  # type: ignore[return-value]

    return decorate


def engine_options(command: Command) -> Command:
    """Add the options for many ranks to a command, passed as argument `engine`."""

    @functools.wraps(command)
    def with_engine(
        *args: Any,
        engine_name: str | None,
        worker_count: int | None,
        memory_bytes: int | None,
        ray_address: str | None,
        **others: Any,
    ) -> Any:
        if ray_address is not None and engine_name != "ray":
            raise UsageError("--ray-address needs --engine ray")
        engine = None
        if (engine_name, worker_count, memory_bytes) != (None, None, None):
            from tracekit.engine.choice import EngineChoice

            engine = EngineChoice(engine_name, worker_count, memory_bytes, ray_address)
        return command(*args, engine=engine, **others)

    for option in reversed(_ENGINE_OPTIONS):
        with_engine = option(with_engine)
    return with_engine  # type: ignore[return-value]


_ENGINE_OPTIONS = (
    click.option(
        "--engine",
        "engine_name",
        type=click.Choice(["serial", "processes", "ray"]),
        help="How to read the traces of many ranks.  [default: processes for many ranks]",
    ),
    click.option(
        "--workers",
        "worker_count",
        type=click.IntRange(min=1),
        metavar="COUNT",
        help="Number of traces to read at once.  [default: one per processor]",
    ),
    click.option(
        "--memory",
        "memory_bytes",
        type=SIZE,
        metavar="SIZE",
        help="Memory limit of all workers, such as 800MB.  [default: a share of system memory]",
    ),
    click.option(
        "--ray-address",
        metavar="ADDRESS",
        help="Address of a Ray cluster, for --engine ray.  [default: RAY_ADDRESS, else "
        "start Ray locally]",
    ),
)

_READING_OPTIONS: dict[str, Callable[[Any], Any]] = {
    "queries": queries_option,
    "rules": rules_option,
    "capture": capture_option,
    "peak_rates": peak_rates_option,
    "unprofiled_step": unprofiled_step_option,
    "step": step_option,
    "no_cache": no_cache_option,
    "engine": engine_options,
}
