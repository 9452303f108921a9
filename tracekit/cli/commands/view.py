"""`tracekit view TRACE`: open a trace in the Perfetto UI."""

from __future__ import annotations

import contextlib
import signal
import threading
from collections.abc import Iterator, Sequence

import click

from tracekit.cli.commands.export import Bounded, Choice, choice_options, print_written


@click.command(name="view")
@choice_options
@click.option("--no-browser", is_flag=True, help="Print the address instead of opening it.")
@click.option(
    "--ui",
    metavar="URL",
    default="https://ui.perfetto.dev",
    show_default=True,
    help="Address of the Perfetto UI.",
)
def command(no_browser: bool, ui: str, choice: Choice) -> None:
    """Open a trace in Perfetto.

    Adds attribution tracks. The page reads the trace from this machine; nothing is uploaded. Ctrl-C
    stops the server and removes the file.
    """
    import tempfile
    import webbrowser

    from tracekit.cli._open import open_traces
    from tracekit.database.connections import explained
    from tracekit.export.perfetto import export_perfetto
    from tracekit.export.viewer import origin_of, serving
    from tracekit.storage.temp_dirs import temporary_place

    origin_of(ui)
    # The file has no name, so the system removes it when the process ends.
    place = temporary_place()
    with tempfile.TemporaryFile(prefix="tracekit-view-", buffering=0, dir=place) as file:
        out = Bounded(file.write, choice.max_bytes)
        with open_traces(choice.traces, choice.reading) as trace, explained(place):
            done = export_perfetto(trace, out.write, choice.selection, args=choice.is_with_args)
        print_written("Perfetto", done, out.size_bytes)
        with (
            serving(file, _title(choice.traces), ui) as address,
            _redirect(address) as page,
            _until_ended() as ended,
        ):
            click.echo(address)
            if not no_browser and not webbrowser.open(page):
                click.echo("note: no browser found; open the address manually", err=True)
            click.echo("stop with Ctrl-C", err=True)
            ended.wait()


def _title(traces: Sequence[str]) -> str:
    """Return the title in the viewer, without the signature of a URL."""
    from tracekit.storage import Location

    return Location.of(traces[0]).name + (f" and {len(traces) - 1} more" if traces[1:] else "")


@contextlib.contextmanager
def _redirect(address: str) -> Iterator[str]:
    """Yield the address of a private page that redirects to `address`.

    Any user of the machine can read a browser's command line, but only this user can read the page.
    """
    import html
    import shutil

    from tracekit.storage.temp_dirs import temporary_folder

    folder = temporary_folder()
    try:
        page = folder / "view.html"
        page.touch(0o600)
        to = html.escape(address)
        page.write_text(
            f'<meta charset="utf-8"><meta name="referrer" content="no-referrer">\n'
            f'<meta http-equiv="refresh" content="0; url={to}">\n<a href="{to}">Perfetto</a>\n',
            "utf-8",
        )
        yield page.as_uri()
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@contextlib.contextmanager
def _until_ended() -> Iterator[threading.Event]:
    """Yield an event that Ctrl-C or SIGTERM sets."""
    ended = threading.Event()
    numbers = (signal.SIGINT, signal.SIGTERM)
    before = [signal.signal(number, lambda *_: ended.set()) for number in numbers]
    try:
        yield ended
    finally:
        for number, handler in zip(numbers, before, strict=True):
            signal.signal(number, handler)
