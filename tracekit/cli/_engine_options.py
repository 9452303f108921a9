"""The options that say how the traces of many ranks are read."""

from __future__ import annotations

import functools
import re
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

import click

from tracekit.errors import UsageError
from tracekit.units import GB, MB

if TYPE_CHECKING:
    from tracekit.engine.many_ranks import EngineChoice

Command = TypeVar("Command", bound=Callable[..., Any])

_SIZE = re.compile(r"(?P<number>\d+(?:\.\d+)?)\s*(?P<unit>[mg]i?b?)", re.IGNORECASE)
_FACTORS = {"m": MB, "g": GB}


class _Size(click.ParamType[int]):
    """A size of memory, as 800MB or 4GB, in bytes."""

    name = "size"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        """Return the bytes that a text means."""
        found = _SIZE.fullmatch(str(value).strip())
        if found is None:
            self.fail(f"{value!r} is no size of memory: write 800MB or 4GB", param, ctx)
        unit = found["unit"].lower()
        factor = _FACTORS[unit[0]] if "i" not in unit else {"m": 1 << 20, "g": 1 << 30}[unit[0]]
        return int(float(found["number"]) * factor)


_OPTIONS = (
    click.option(
        "--engine",
        "engine_name",
        type=click.Choice(["serial", "processes", "ray"]),
        help="What reads the traces of many ranks.  [default: processes, where there are many]",
    ),
    click.option(
        "--workers",
        "worker_count",
        type=click.IntRange(min=1),
        metavar="COUNT",
        help="How many ranks' traces are read at a time.  [default: one on each processor]",
    ),
    click.option(
        "--memory",
        "memory_bytes",
        type=_Size(),
        metavar="SIZE",
        help="What all workers may take together, as 800MB.  [default: a share of the machine's]",
    ),
    click.option(
        "--ray-address",
        metavar="ADDRESS",
        help="Of a Ray cluster, for --engine ray.  [default: RAY_ADDRESS, or this machine alone]",
    ),
)


def engine_options(command: Command) -> Command:
    """Give a command the options; it gets what they say as its argument `engine`."""

    @functools.wraps(command)
    def with_choice(
        *args: Any,
        engine_name: str | None,
        worker_count: int | None,
        memory_bytes: int | None,
        ray_address: str | None,
        **others: Any,
    ) -> Any:
        engine = _choice(engine_name, worker_count, memory_bytes, ray_address)
        return command(*args, engine=engine, **others)

    for option in reversed(_OPTIONS):
        with_choice = option(with_choice)
    return with_choice  # type: ignore[return-value]


def _choice(
    name: str | None,
    worker_count: int | None,
    memory_bytes: int | None,
    ray_address: str | None,
) -> EngineChoice | None:
    if ray_address is not None and name != "ray":
        raise UsageError("--ray-address is for --engine ray")
    if (name, worker_count, memory_bytes) == (None, None, None):
        return None
    from tracekit.engine.many_ranks import EngineChoice

    return EngineChoice(name, worker_count, memory_bytes, ray_address)
