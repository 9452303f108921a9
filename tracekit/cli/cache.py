"""`tracekit ingest cache`: the stores that were made from traces given by path."""

from __future__ import annotations

import click

from tracekit.cli._emit import emit
from tracekit.cli._options import format_option


@click.group(name="cache")
def command() -> None:
    """List, clear, or locate the cached stores."""


@command.command(name="list")
@format_option
def list_command(format_name: str) -> None:
    """List the cached stores, the last used first."""
    from tracekit.analysis.result import Result, columns_of_text
    from tracekit.database import list_cached

    rows = [
        (str(store.source_path), store.size_bytes, _date(store.modified_s), "store")
        for store in list_cached()
    ]
    columns = columns_of_text(
        "source_path VARCHAR, size_bytes BIGINT, modified VARCHAR, holds VARCHAR"
    )
    emit(Result("cache", columns, rows), format_name)


def _date(time_s: float) -> str:
    from datetime import datetime

    return datetime.fromtimestamp(time_s).astimezone().isoformat(timespec="seconds")


@command.command(name="clear")
def clear_command() -> None:
    """Remove every cached store; the traces themselves stay."""
    from tracekit.database import cache_dir, clear_cache

    count = clear_cache()
    click.echo(
        f"removed {count} cached store{'' if count == 1 else 's'} from {cache_dir()}", err=True
    )


@command.command(name="path")
def path_command() -> None:
    """Print the folder of the cached stores."""
    from tracekit.database import cache_dir

    click.echo(cache_dir())
