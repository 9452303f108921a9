"""`tracekit mcp FOLDER…`: let an assistant ask about the traces in some folders."""

from __future__ import annotations

from pathlib import Path

import click

from tracekit.errors import StoreError, UsageError


@click.command(name="mcp")
@click.argument(
    "folders", metavar="FOLDER...", nargs=-1, required=True, type=click.Path(path_type=Path)
)
@click.option(
    "--http",
    "port",
    type=click.IntRange(0, 65_535),
    metavar="PORT",
    help="Serve HTTP on 127.0.0.1 instead of stdio; 0 selects a free port. Clients must "
    "send the token that is printed to stderr, or that of TRACEKIT_MCP_TOKEN.",
)
@click.option(
    "--timeout",
    "timeout_s",
    type=click.FloatRange(min=0, min_open=True),
    default=300.0,
    show_default=True,
    metavar="SECONDS",
    help="Stop calls that take longer.",
)
@click.option("--install", is_flag=True, help="Print the settings for common clients and exit.")
def command(folders: tuple[Path, ...], port: int | None, timeout_s: float, install: bool) -> None:
    """Serve traces to AI assistants (MCP).

    Six read-only tools for the traces in FOLDERs: open, ask, sql, compare, advise, and explain.
    Answers keep to a token budget (2,000 by default), as --format brief does.
    """
    for folder in folders:
        if not folder.is_dir():
            raise UsageError(f"{folder}: not a folder", hint="pass folders that contain traces")
    if install:
        from tracekit.mcp.clients import settings

        click.echo("\n\n".join(settings([*map(str, folders)])))
        return
    try:
        from tracekit.mcp.server import make_server, serve_http, serve_stdio
    except ImportError as error:
        raise UsageError(
            f"mcp needs the extra `mcp` ({error.name} is not installed)",
            hint="install it with: pip install '.[mcp]'",
        ) from error
    server = make_server([folder.resolve() for folder in folders], timeout_s)
    if port is None:
        serve_stdio(server)
        return
    try:
        serve_http(server, port)
    except OSError as error:
        raise StoreError(f"port {port}: cannot listen: {error.strerror or error}") from error
