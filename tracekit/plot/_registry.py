"""Registry of charts: name, analyses, and drawing function."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Protocol, TypeVar

from msgspec import Struct

from tracekit.analysis.result import Result
from tracekit.plot._chart import Chart
from tracekit.plot._encoding import Drawing, Rows


class Draw(Protocol):
    """Draws the rows of analyses; returns None if there is no data."""

    def __call__(self, *rows: Rows) -> Drawing | None:
        """Return the drawing, or None if there is no data."""
        ...


D = TypeVar("D", bound=Callable[..., object])


class ChartKind(Struct, frozen=True):
    """A chart of tracekit; `needs` names the analyses whose rows it shows."""

    name: str
    needs: tuple[str, ...]
    draw: Draw
    description: str

    def chart(self, data: Mapping[str, Result]) -> Chart | None:
        """Return the chart for results by analysis name, or None if there is no data."""
        need = self.needs[0]
        if not data[need]:
            return None
        drawn = self.draw(*(data[name].to_dicts() for name in self.needs))
        if drawn is None:
            return None
        spec = {"data": {"name": need}, **drawn.spec}
        shown = {name: data[name] for name in (need, *drawn.also)}
        return Chart(self.name, drawn.title, spec, shown, drawn.omitted)


CHARTS: dict[str, ChartKind] = {}


def register(name: str, needs: tuple[str, ...], draw: Draw, description: str) -> None:
    """Add a chart."""
    CHARTS[name] = ChartKind(name, needs, draw, description)


def chart(*needs: str) -> Callable[[D], D]:
    """Register a function as a chart of these analyses. The chart has the name of the function."""

    def registered(draw: D) -> D:
        register(draw.__name__, needs, draw, (draw.__doc__ or "").partition("\n")[0])  # type: ignore[arg-type]
        return draw

    return registered
