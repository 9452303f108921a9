"""Screen with a title, a table, the full text of the selected row, and a line of key bindings.

Text from a trace is shown with printable characters only, and is never parsed as markup.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from msgspec import Struct
from rich.console import JustifyMethod
from rich.text import Text
from textual.app import App, ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import VerticalScroll
from textual.screen import ModalScreen, Screen
from textual.widgets import DataTable, Input, Static

from tracekit.browse.page import Page, View
from tracekit.browse.query_worker import Answers, Asker
from tracekit.browse.views import HELP, KEYS, VIEWS, Modules
from tracekit.errors import TracekitError
from tracekit.render._text import cell_width, printable, truncate, truncate_names
from tracekit.trace import Trace

_MAX_CELLS = 48
"""Maximum width of a cell in the table; the line below the table shows the complete text."""

_WHY = "SELECT DISTINCT reason FROM accelerator WHERE NOT is_recorded ORDER BY reason"


class _Place(Struct):
    """A visited view and its selected row."""

    view: View
    search: str = ""
    number: int = 0
    row: int = 0


class _TextScreen(ModalScreen[None]):
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding(key, "dismiss", show=False)
        for key in ("escape", "backspace", "q", "s", "question_mark", "h", "enter")
    ]

    def __init__(self, text: str) -> None:
        super().__init__()
        self._text = text

    def compose(self) -> ComposeResult:
        # Clean each line separately to keep the line breaks.
        shown = "\n".join(map(printable, self._text.split("\n")))
        with VerticalScroll():
            yield Static(Text(shown), id="text")
        yield Static(Text("up, down scroll  esc back"), id="text-keys")


class Browser(App[None]):
    ENABLE_COMMAND_PALETTE = False
    # Show the selected row in reverse video, which is visible without colors.
    CSS = """
    #title { text-style: bold; height: auto; max-height: 2; }
    #rows { height: 1fr; }
    #rows > .datatable--cursor {
        background: $surface; color: $foreground; text-style: reverse;
    }
    #detail { height: auto; max-height: 4; }
    #search { display: none; border: none; height: 1; padding: 0; }
    #status, #keys, #text-keys { height: 1; }
    _TextScreen { background: $background; }
    _TextScreen VerticalScroll { height: 1fr; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape,backspace", "leave_view", show=False),
        Binding("slash", "search", show=False),
        Binding("s", "sql", show=False),
        Binding("e", "events", show=False),
        Binding("n", "turn(1)", show=False),
        Binding("p", "turn(-1)", show=False),
        Binding("question_mark,h", "help", show=False),
        Binding("q", "leave", show=False),
        Binding("ctrl+c,ctrl+q", "leave", show=False, priority=True),
        *(Binding(key, f"view('{key}')", show=False) for key in VIEWS),
    ]

    def __init__(self, trace: Trace, traces: Sequence[str]) -> None:
        super().__init__()
        self._traces = traces
        self._asker = Asker(trace)
        self._places = [_Place(VIEWS["1"][1])]
        self._page: Page | None = None

    def compose(self) -> ComposeResult:
        yield Static(id="title")
        yield DataTable[Text](id="rows", cursor_type="row")
        yield Static(id="detail")
        yield Input(placeholder="text to search for", id="search", select_on_focus=False)
        yield Static(id="status")
        yield Static(Text(KEYS), id="keys")

    def on_mount(self) -> None:
        self._table.focus()
        self._show()

    def on_unmount(self) -> None:
        """Wait for the query thread, whose query was already interrupted."""
        self._asker.close()

    @property
    def _table(self) -> DataTable[Text]:
        table: DataTable[Text] = self._main.query_one("#rows", DataTable)
        return table

    @property
    def _main(self) -> Screen[None]:
        """The main screen. Query results may arrive while a text screen covers it."""
        screen: Screen[None] = self.screen_stack[0]
        return screen

    @property
    def _here(self) -> _Place:
        return self._places[-1]

    def _show_text(self, place: str, text: str) -> None:
        self._main.query_one(f"#{place}", Static).update(Text(printable(text)))

    def _show(self) -> None:
        here = self._here
        searched = f", with «{here.search}»" if here.search else ""
        steps = "" if len(self._places) == 1 else f"{'› ' * (len(self._places) - 1)}"
        self._show_text("title", f"{steps}{here.view.title}{searched}")
        self._show_text("detail", "")
        self._show_text("status", "running query …")
        self._page = None
        self._table.clear(columns=True)
        self.run_worker(self._load(here), exclusive=True, group="load")

    async def _load(self, here: _Place) -> None:
        try:
            page, why = await self._asker.ask(lambda answers: _page_of(here, answers))
        except TracekitError as error:
            self._show_text("detail", " – ".join(filter(None, (error.message, error.hint))))
            self._show_text("status", "no rows")
            return
        table = self._table
        texts = []
        for column in page.columns:
            cells = truncate_names(column.cells, _MAX_CELLS)
            # Set widths explicitly, because the table initially shows narrower columns.
            width = max(map(cell_width, [column.header, *cells]))
            table.add_column(Text(column.header), key=column.source, width=width)
            side: JustifyMethod = "right" if column.is_number else "left"
            texts.append([Text(cell, justify=side) for cell in cells])
        table.add_rows(zip(*texts, strict=True))
        self._page = page
        table.move_cursor(row=here.row)
        self._show_text("status", _row_numbers(page))
        self._show_text("detail", why)
        self._show_details(here.row)

    def _show_details(self, number: int) -> None:
        here, page = self._here, self._page
        if page is None or not number < len(page.rows):
            return
        here.row = number
        wide = [
            column.labeled(column.cells[number])
            for column in page.columns
            if not column.is_number
            and truncate(column.cells[number], _MAX_CELLS // 2) != (column.cells[number])
        ]
        self._show_text("detail", "  ".join(wide))

    def on_data_table_row_highlighted(self, event: DataTable.RowHighlighted) -> None:
        self._show_details(event.cursor_row)

    def on_data_table_row_selected(self, event: DataTable.RowSelected) -> None:
        if self._page is not None and event.cursor_row < len(self._page.rows):
            self._go(self._here.view.deeper(self._page.rows[event.cursor_row]))

    def _go(self, view: View | None) -> None:
        if view is None:
            self._show_text("status", "nothing below this row; s shows the SQL")
            return
        self._places.append(_Place(view))
        self._show()

    def action_leave_view(self) -> None:
        if self._is_searching:
            self._end_search()
        elif self._here.search:
            self._here.search, self._here.number, self._here.row = "", 0, 0
            self._show()
        elif len(self._places) > 1:
            self._places.pop()
            self._show()
        else:
            self._show_text("status", "this is the first screen; q quits")

    def action_view(self, key: str) -> None:
        self._places = [_Place(VIEWS[key][1])]
        self._show()

    def action_turn(self, by: int) -> None:
        here, page = self._here, self._page
        if page is not None and (page.is_more if by > 0 else here.number > 0):
            here.number, here.row = here.number + by, 0
            self._show()

    def action_events(self) -> None:
        view, page = self._here.view, self._page
        if isinstance(view, Modules) and page is not None and page.rows:
            self._go(view.events(page.rows[self._here.row]))

    def action_sql(self) -> None:
        self.push_screen(_TextScreen(self._here.view.definition(self._traces, self._here.search)))

    def action_help(self) -> None:
        self.push_screen(_TextScreen(HELP))

    @property
    def _is_searching(self) -> bool:
        return self._main.query_one("#search", Input).display

    def action_search(self) -> None:
        field = self._main.query_one("#search", Input)
        field.value = self._here.search
        field.display = True
        field.focus()

    def on_input_submitted(self, event: Input.Submitted) -> None:
        here = self._here
        here.search, here.number, here.row = event.value.strip(), 0, 0
        self._end_search()
        self._show()

    def _end_search(self) -> None:
        self._main.query_one("#search", Input).display = False
        self._table.focus()

    async def action_leave(self) -> None:
        self.workers.cancel_all()
        await self._asker.stop()
        self.exit()


def _page_of(here: _Place, answers: Answers) -> tuple[Page, str]:
    """Return the current page, and the reason for missing GPU work if the page is empty."""
    page = here.view.page(answers, here.number, here.search)
    if page.rows or here.search:
        return page, ""
    missing = answers.sql(_WHY).rows
    return page, "; ".join(reason for (reason,) in missing)


def _row_numbers(page: Page) -> str:
    if not page.rows:
        return "no rows"
    last = page.first + len(page.rows)
    of_all = f" of {page.total:,}" if page.total is not None else ""
    more = "; n shows more" if page.is_more else ""
    note = f" · {page.note}" if page.note else ""
    return f"rows {page.first + 1:,} to {last:,}{of_all}{more}{note}"
