"""`tracekit cache`: the stores that were made from traces given by path, and measured ceilings."""

from __future__ import annotations

import click

from tracekit.cli._emit import emit
from tracekit.cli._options import format_option


@click.group(name="cache")
def command() -> None:
    """List, clear or locate the cached stores and the measured ceilings of devices."""


@command.command(name="list")
@format_option
def list_command(format_name: str) -> None:
    """List the cached stores, the last used first, and the devices whose ceilings were measured."""
    from tracekit.analysis.ceilings import list_remembered
    from tracekit.analysis.result import Result, columns_of_text
    from tracekit.database import list_cached

    rows = [
        (str(store.source_path), store.size_bytes, _date(store.modified_s), "store")
        for store in list_cached()
    ]
    rows += [
        (one.source_path, one.size_bytes, _date(one.modified_s), f"ceilings of {one.device_name}")
        for one in list_remembered()
    ]
    columns = columns_of_text(
        "source_path VARCHAR, size_bytes BIGINT, modified VARCHAR, holds VARCHAR"
    )
    emit(Result("cache", columns, rows), format_name)


def _date(time_s: float) -> str:
    from datetime import datetime

    return datetime.fromtimestamp(time_s).astimezone().isoformat(timespec="seconds")


@command.command(name="clear")
@click.option("--ceilings", is_flag=True, help="Remove what was measured on devices too.")
def clear_command(ceilings: bool) -> None:
    """Remove every cached store; the traces themselves stay.

    What was measured on devices stays too: no trace can bring it back.
    """
    from tracekit.analysis.ceilings import forget_all, list_remembered
    from tracekit.database import cache_dir, clear_cache

    count = clear_cache()
    click.echo(
        f"removed {count} cached store{'' if count == 1 else 's'} from {cache_dir()}", err=True
    )
    if ceilings:
        click.echo(f"removed the ceilings of {_devices(forget_all())}", err=True)
    elif kept := len(list_remembered()):
        click.echo(f"kept the ceilings of {_devices(kept)}; --ceilings removes them too", err=True)


def _devices(count: int) -> str:
    return f"{count} device{'' if count == 1 else 's'}"


@command.command(name="path")
def path_command() -> None:
    """Print the folder of the cached stores."""
    from tracekit.database import cache_dir

    click.echo(cache_dir())
