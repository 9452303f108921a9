"""`tracekit cache`: the stores that were made from traces given by path."""

from __future__ import annotations

import click

from tracekit.cli._options import format_option


@click.group(name="cache")
def command() -> None:
    """List, clear or locate the cached stores."""


@command.command(name="list")
@format_option
def list_command(format_name: str) -> None:
    """List the cached stores, the last used first."""
    from datetime import datetime

    from tracekit.analysis.result import Column, Result
    from tracekit.cli._emit import emit
    from tracekit.database import list_cached

    rows = [
        (
            str(store.source_path),
            store.size_bytes,
            datetime.fromtimestamp(store.modified_s).astimezone().isoformat(timespec="seconds"),
        )
        for store in list_cached()
    ]
    columns = (
        Column("source_path", "VARCHAR"),
        Column("size_bytes", "BIGINT"),
        Column("modified", "VARCHAR"),
    )
    emit(Result("cache", columns, rows), format_name)


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
