"""`tracekit mcp FOLDER…`: let AI assistants query the traces in folders."""

from __future__ import annotations

import json
import shlex
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import click

import tracekit
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
    help="Serve HTTP on 127.0.0.1 instead of stdio; 0 selects a free port. Clients must send the "
    "token that is printed to stderr, or the token in TRACEKIT_MCP_TOKEN.",
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
    Answers fit a token budget (2,000 by default), like --format brief.
    """
    for folder in folders:
        if not folder.is_dir():
            raise UsageError(f"{folder}: not a folder", hint="pass folders that contain traces")
    if install:
        click.echo("\n\n".join(_settings([*map(str, folders)])))
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


def _settings(folders: Sequence[str]) -> Iterator[str]:
    """Yield the settings for each client, with the file in which to put them.

    Formats are from the manuals of the clients: code.claude.com/docs/en/mcp,
    modelcontextprotocol.io/docs/develop/connect-local-servers, cursor.com/docs/context/mcp,
    code.visualstudio.com/docs/agents/reference/mcp-configuration,
    developers.openai.com/codex/mcp.
    """
    skill = Path(tracekit.__file__).with_name("mcp") / "AGENTS.md"
    # Clients start in other folders, often with another PATH. -P prevents Python from importing
    # files from their current folder.
    args = ["-P", "-m", "tracekit", "mcp", *(str(Path(folder).resolve()) for folder in folders)]
    command = shlex.join([sys.executable, *args])
    entry = {"command": sys.executable, "args": args}
    usual = json.dumps({"mcpServers": {"tracekit": entry}}, indent=2)
    vscode = json.dumps({"servers": {"tracekit": {"type": "stdio", **entry}}}, indent=2)
    codex = f"command = {json.dumps(sys.executable)}\nargs = {json.dumps(args, ensure_ascii=False)}"
    yield f"Claude Code: run\n\nclaude mcp add tracekit -- {command}"
    yield (
        "Claude Desktop: claude_desktop_config.json; Cursor: .cursor/mcp.json; "
        f"Claude Code, for a project: .mcp.json\n\n{usual}"
    )
    yield f"VS Code: .vscode/mcp.json\n\n{vscode}"
    yield (
        f"Codex: ~/.codex/config.toml, or: codex mcp add tracekit -- {command}\n\n"
        f"[mcp_servers.tracekit]\n{codex}"
    )
    yield (
        "Instructions for an assistant, with tools or only a shell: as a skill, or added to "
        f"AGENTS.md\n\nmkdir -p .claude/skills/tracekit && cp {shlex.quote(str(skill))} "
        ".claude/skills/tracekit/SKILL.md"
    )
