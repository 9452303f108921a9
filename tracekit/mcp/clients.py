"""What the common clients are told about the server, in the form of each."""

from __future__ import annotations

import json
import shlex
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

SKILL = Path(__file__).with_name("AGENTS.md")
"""What an assistant should know; ships with the package."""


def settings(folders: Sequence[str]) -> Iterator[str]:
    """Yield the settings of each client, with where they go.

    Their forms are those of the clients' manuals: code.claude.com/docs/en/mcp,
    modelcontextprotocol.io/docs/develop/connect-local-servers, cursor.com/docs/context/mcp,
    code.visualstudio.com/docs/agents/reference/mcp-configuration,
    developers.openai.com/codex/mcp.
    """
    # Clients know no current folder, and often another PATH; what lies in theirs is
    # not to be imported.
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
        "What an assistant should know, with tools or with a shell alone: as a skill, or added to "
        f"AGENTS.md\n\nmkdir -p .claude/skills/tracekit && cp {shlex.quote(str(SKILL))} "
        ".claude/skills/tracekit/SKILL.md"
    )
