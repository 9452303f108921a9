"""The `tracekit` command: finds the commands, and converts errors to messages and exit codes.

CI systems interpret commands in log lines: GitHub's runner reads `::` at the start of a line and
`##[` anywhere, Azure `##vso[`, TeamCity `##teamcity[`. Names in a trace must not act as commands.
stdout and stderr therefore escape these texts, always, because any output may end up in such a log.
"""

from __future__ import annotations

import errno
import os
import re
import sys
from collections.abc import Sequence
from contextlib import suppress
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any, NoReturn, TextIO, cast

import click
from click.shell_completion import CompletionItem

import tracekit
from tracekit import errors
from tracekit.errors import StoreError, TracekitError, UsageError, did_you_mean
from tracekit.render._text import printable

INTERRUPTED = 130

UNEXPECTED = 70
"""Exit code for a bug in tracekit (EX_SOFTWARE in sysexits.h)."""

RENAMED_OPTIONS = {"--ceilings": "--peak-rates", "--plain-step": "--unprofiled-step"}
"""Current name of each renamed option. The old names still work in this version, with a note."""


SECTIONS = {
    "Record": ("collect", "bench"),
    "Look": ("breakdown", "browse", "report", "query", "pivot", "sql", "view"),
    "Improve": ("advise", "predict", "compare", "check"),
    "Manage": ("ingest", "export", "mcp"),
}
"""Commands by task, as in `tracekit --help`. Each is a module of the same name."""

SUBCOMMANDS = {
    "sweep": "collect",
    "join": "collect",
    "health": "query",
    "memory": "query",
    "replay": "query",
    "paper": "compare",
    "baseline": "check",
    "history": "check",
    "cache": "ingest",
    "perfetto": "export",
    "collapsed": "export",
    "speedscope": "export",
    "reproduce": "export",
}
"""Command of each subcommand. Subcommands also work without the command, with a note."""


def _subcommand(word: str) -> click.Command | None:
    """Return the subcommand, or None for an analysis of `query`, such as `memory`."""
    in_file = Path(__file__).with_name("commands").joinpath(f"{word}.py").exists()
    module = import_module(f"tracekit.cli.commands.{word if in_file else SUBCOMMANDS[word]}")
    command: click.Command | None = getattr(module, "command" if in_file else word, None)
    return command


def subcommands(name: str) -> dict[str, click.Command]:
    """Return the subcommands of a command, without the analyses of `query`."""
    result = {word: _subcommand(word) for word, parent in SUBCOMMANDS.items() if parent == name}
    return {word: command for word, command in result.items() if command}


@cache
def _load(name: str) -> click.Command:
    """Return a command, with its subcommands in help and completion."""
    command: click.Command = import_module(f"tracekit.cli.commands.{name}").command
    words = {word: one.get_short_help_str(200) for word, one in subcommands(name).items()}
    if not words:
        return command
    lines = [f"  {word:<{max(map(len, words))}}  {text}" for word, text in words.items()]
    epilog = "\n".join(("\b", "Subcommands:", *lines))
    command.epilog = f"{command.epilog}\n\n{epilog}" if command.epilog else epilog
    arguments = [param for param in command.params if isinstance(param, click.Argument)]
    first = arguments[0] if arguments else command
    complete = first.shell_complete

    def with_words(ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        is_first = not any(ctx.params.get(str(one.name)) for one in arguments)
        offered = [word for word in words if is_first and word.startswith(incomplete)]
        return [*map(CompletionItem, offered), *complete(ctx, incomplete)]

    first.shell_complete = with_words  # type: ignore[method-assign]
    return command


class _Commands(click.Group):
    """Command group: every module of this folder is a command."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        del ctx
        return [name for names in SECTIONS.values() for name in names]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        return _load(cmd_name) if cmd_name in self.list_commands(ctx) else None

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """List the commands by task."""
        width = max(map(len, self.list_commands(ctx)))
        for section, names in SECTIONS.items():
            for name in names:
                title = section if name == names[0] else ""
                text = _load(name).get_short_help_str(80).rstrip(".")
                formatter.write(f"{title:<9}{name:<{width}}  {text}\n")

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the commands instead of the options, which are only --help and --version."""
        formatter.write_paragraph()
        self.format_commands(ctx, formatter)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        names = self.list_commands(ctx)
        for old, new in RENAMED_OPTIONS.items():
            if any(one.partition("=")[0] == old for one in args):
                click.echo(f"note: `{old}` is now `{new}`", err=True)
                args = [re.sub(f"^{old}(?==|$)", new, one) for one in args]
        name, *rest = args
        if name in SUBCOMMANDS:
            name, rest = SUBCOMMANDS[name], args
            if not ctx.resilient_parsing:
                words = f"{name} {args[0]}"
                click.echo(f"note: `tracekit {args[0]}` is now `tracekit {words}`", err=True)
        if name not in names and not ctx.resilient_parsing:
            from tracekit.analysis.catalog import load_catalog

            hint = f"for example: tracekit breakdown {name}"
            if name in load_catalog().analyses:
                hint = f"it is an analysis: tracekit query {name} TRACE"
            elif not Path(name).exists():
                hint = did_you_mean(name, names, count=1) or "commands: " + ", ".join(names)
            raise UsageError(f"unknown command {name!r}", hint=hint)
        if rest and SUBCOMMANDS.get(rest[0]) == name and (command := _subcommand(rest[0])):
            return f"{name} {rest[0]}", command, rest[1:]
        return super().resolve_command(ctx, [name, *rest])


@click.group(
    cls=_Commands,
    invoke_without_command=True,
    options_metavar="",
    subcommand_metavar="COMMAND [OPTIONS]",
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    epilog="TRACE is a trace file, a folder or quoted glob with the traces of one run"
    " (such as the run folder of `collect`), a .duckdb store, or a .tracekit dataset."
    " Results go to stdout, everything else to stderr."
    " `tracekit COMMAND --help` explains a command; --version shows the version.",
)
@click.version_option(tracekit.__version__, prog_name="tracekit", message="%(prog)s %(version)s")
@click.pass_context
def group(ctx: click.Context) -> None:
    """Find out where the time of a training or serving step went."""
    if ctx.invoked_subcommand is None:
        click.echo(ctx.get_help(), err=True)
        ctx.exit(UsageError.exit_code)


def _check_owner(package: Path) -> None:
    """Check that no other project installed a package `tracekit` in the same folder."""
    if others := sorted(package.parent.glob("tracekit-[0-9]*.dist-info")):
        raise UsageError(
            f"{package}: is shared with another distribution, {others[0].stem}",
            hint="pip uninstall tracekit tracekit-llm, then pip install . in a clone of tracekit",
        )


def main(
    args: Sequence[str] | None = None, command: click.Command = group, name: str = "tracekit"
) -> int:
    """Run the command line and return its exit code.

    0 is success, 1 a failed check, 2 to 6 the kinds of `TracekitError`, 7 an inconclusive result,
    130 an interrupt, and 70 only a bug in tracekit, for which the traceback is shown.

    Args:
        args: the arguments after the program name. The default is the arguments of the process.
        command: the click command that parses them.
        name: name of the program in messages.
    """
    if "_TRACEKIT_COMPLETE" in os.environ:
        group(prog_name="tracekit")
    _prepare_streams()
    errors.given_stores.clear()
    before = sys.stdout, sys.stderr
    sys.stdout, sys.stderr = (
        cast("TextIO", LogLines(stream, name))
        for stream, name in zip(before, ("stdout", "stderr"), strict=True)
    )
    try:
        _check_owner(Path(tracekit.__file__).parent)
        return _run(command, name, list(sys.argv[1:] if args is None else args))
    except TracekitError as error:
        _print_error(error.message, error.hint)
        return error.exit_code
    except click.exceptions.NoArgsIsHelpError as error:
        click.echo(error.format_message(), err=True)
        return UsageError.exit_code
    except click.UsageError as error:
        path = error.ctx.command_path if error.ctx else name
        _print_error(error.format_message(), f"see {path} --help")
        return UsageError.exit_code
    except click.ClickException as error:
        _print_error(error.format_message(), None)
        return UsageError.exit_code
    except (KeyboardInterrupt, click.Abort):
        click.echo(err=True)
        return INTERRUPTED
    except BrokenPipeError:
        # The reader of the pipe, such as `head`, has closed it.
        _discard_stdout()
        return 0
    except OSError as error:
        if error.errno == errno.ENAMETOOLONG:
            _print_error(f"{str(error.filename)[:100]}…: {error.strerror}", None)
            return UsageError.exit_code
        if error.errno != errno.ENOSPC:
            return _unexpected(error)
        import tempfile

        _discard_stdout()
        is_ours = error.filename in ("stdout", "stderr")
        hint = None
        # gettempdir() fails if no temporary folder is writable.
        with suppress(OSError):
            hint = (
                f"temporary files are written to {tempfile.gettempdir()}; set TMPDIR to "
                "another folder"
            )
        _print_error(f"{error.filename or 'a file'}: {error.strerror}", None if is_ours else hint)
        return StoreError.exit_code
    except Exception as error:  # noqa: BLE001 (exit code 1 would read as a rule that failed)
        return _unexpected(error)
    finally:
        sys.stdout, sys.stderr = before


def run_and_exit() -> NoReturn:
    """Run the command line and exit immediately, without the interpreter's cleanup.

    If torch is loaded, exit normally, because its threads and devices may need cleanup.
    """
    exit_code = main()
    if "torch" in sys.modules:
        sys.exit(exit_code)
    for stream in (sys.stdout, sys.stderr):
        # Errors of stdout have already been reported.
        with suppress(OSError, ValueError):
            stream.flush()
    os._exit(exit_code)


def _run(command: click.Command, name: str, args: list[str]) -> int:
    try:
        with command.make_context(name, args, **group.context_settings) as ctx:
            command.invoke(ctx)
        exit_code = 0
    except click.exceptions.Exit as stop:
        exit_code = stop.exit_code
    try:
        sys.stdout.flush()
    except BrokenPipeError:
        raise
    except OSError as error:
        _discard_stdout()
        raise StoreError(f"stdout: {error.strerror or error}") from error
    return exit_code


def _prepare_streams() -> None:
    """Ensure that stdout and stderr exist and can write every character."""
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        if stream is None:
            setattr(sys, name, Path(os.devnull).open("w", encoding="utf-8"))  # noqa: SIM115
        elif hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="backslashreplace")


def _discard_stdout() -> None:
    """Redirect stdout to /dev/null, so that the flush at exit does not fail again."""
    with suppress(OSError, ValueError):
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, sys.stdout.fileno())
        os.close(nowhere)


def _unexpected(error: Exception) -> int:
    if reason := errors.failed_on_given_store(error):
        _print_error(reason, "create it again from the trace; if that also fails, report it")
        return StoreError.exit_code
    from traceback import format_exception

    with suppress(OSError):
        click.echo(printable("".join(format_exception(error)), keep="\n"), nl=False, err=True)
    _print_error(
        f"this is a bug in tracekit {tracekit.__version__}, not a problem of the trace",
        "please report it with the lines above",
    )
    return UNEXPECTED


def _print_error(message: str, hint: str | None) -> None:
    from tracekit.redaction import mask_urls

    # Messages quote file names and text from traces.
    lines = [f"error: {printable(mask_urls(message.strip()))}"]
    if hint:
        lines.append(f"hint: {printable(hint.strip())}")
    with suppress(OSError):
        click.echo("\n".join(map("{:.4000}".format, lines)), err=True)


# All line boundaries of `str.splitlines`. CI systems skip white space and a byte order mark before
# `::`.
_ENDS = r"\n\r\x0b\x0c\x1c-\x1e\x85\u2028\u2029"
_COMMAND = re.compile(rf"((?<![^{_ENDS}])(?:[^\S{_ENDS}]|\ufeff)*:):|(##\w{{0,20}})\[")


class LogLines:
    r"""A text stream in which `::` at the start of a line is `:\u003a`, and `##x[` is `##x\u005b`.

    In JSON, the second escape has the same meaning, and the first one does not occur. The stream
    has no `buffer`, so that output cannot bypass it.

    Attributes:
        stream: the underlying stream.
        name: its name in error messages.
    """

    def __init__(self, stream: TextIO, name: str) -> None:
        self.stream = stream
        self.name = name
        # The end of an unfinished line that the next write could turn into a command.
        self._begun = ""

    def write(self, text: str) -> int:
        """Write text and return its length."""
        whole = self._begun + text
        if "::" in whole or "##" in whole:
            # Only the end of a command is replaced, and it has not been written yet.
            whole = _COMMAND.sub(_escape_command, whole)
        try:
            self.stream.write(whole[len(self._begun) :])
        except OSError as error:
            error.filename = self.name
            raise
        line = f"{whole}.".splitlines()[-1][:-1].replace("\ufeff", "").lstrip()
        self._begun = line if line in ("", ":") else "x" + line[-24:]
        return len(text)

    def flush(self) -> None:
        """Flush the underlying stream."""
        try:
            self.stream.flush()
        except OSError as error:
            error.filename = self.name
            raise

    def __getattr__(self, name: str) -> Any:
        if name == "buffer":
            raise AttributeError(name)
        return getattr(self.stream, name)


def _escape_command(match: re.Match[str]) -> str:
    return f"{match[1]}\\u003a" if match[1] else f"{match[2]}\\u005b"
