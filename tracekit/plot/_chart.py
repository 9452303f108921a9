"""Charts: Vega-Lite specifications with rows of analyses."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from tracekit.errors import StoreError, UsageError

if TYPE_CHECKING:
    import altair

    from tracekit.analysis.result import Result

SCHEMA = "https://vega.github.io/schema/vega-lite/v6.json"

MIME = "application/vnd.vegalite.v6+json"

_INSTALL = "install it with: pip install '.[plot]'"

_WIDTH_PX = 720

# Bars narrower than 1/12 of the chart have no label inside.
_LABELS_OF_WIDTH = 12


class Chart(Struct, frozen=True):
    """A chart, which notebooks display.

    `spec` is a Vega-Lite specification (https://vega.github.io/vega-lite/) with named data. `data`
    has the rows by name. Renderers do not compute figures.
    """

    name: str
    title: str
    spec: Mapping[str, Any]
    data: Mapping[str, Result]
    omitted: str = ""

    def to_dict(self) -> dict[str, Any]:
        """Return the chart as a Vega-Lite specification with its rows."""
        return {
            "$schema": SCHEMA,
            "title": self.title,
            "width": _WIDTH_PX,
            **self._spec_with_labels(),
            "datasets": {
                name: [
                    {key: _value(value) for key, value in row.items()} for row in result.to_dicts()
                ]
                for name, result in self.data.items()
            },
            "config": {"view": {"stroke": None}, "axis": {"labelLimit": 260}},
        }

    def _spec_with_labels(self) -> Mapping[str, Any]:
        """Return the specification with labels inside bars. The report adds its own labels."""
        label = self.spec.get("usermeta", {}).get("label")
        if label is None:
            return self.spec
        x, x2 = (self.spec["encoding"][channel]["field"] for channel in ("x", "x2"))
        shared = {name: self.spec["encoding"][name] for name in ("x", "y")}
        encoding = {name: one for name, one in self.spec["encoding"].items() if name != "text"}
        bars = {"mark": self.spec["mark"], "encoding": encoding}
        widest = max(self.data[self.spec["data"]["name"]].column(x2))
        wide = f"datum.{x2} - datum.{x} > {widest // _LABELS_OF_WIDTH}"
        mark = {"type": "text", "align": "left", "dx": 4, "limit": _WIDTH_PX // _LABELS_OF_WIDTH}
        texts = {
            "transform": [{"filter": wide}],
            "mark": mark,
            "encoding": {**shared, "text": {"field": label}},
        }
        rest = {name: part for name, part in self.spec.items() if name not in bars}
        return {**rest, "layer": [bars, texts]}

    def to_altair(self) -> altair.TopLevelMixin:
        """Return the chart as an altair chart, to modify or combine it.

        Raises:
            UsageError: altair is not installed.
        """
        try:
            import altair
        except ImportError:
            raise UsageError("altair is not installed", hint=_INSTALL) from None
        chart: altair.TopLevelMixin = altair.Chart.from_dict(self.to_dict())
        return chart

    def to_svg(self) -> str:
        """Return the chart as SVG text, without a browser.

        Raises:
            UsageError: vl-convert is not installed.
        """
        drawn: str = _converter().vegalite_to_svg(self.to_dict(), vl_version=_newest_vega_lite())
        return drawn

    def to_png(self, scale: float = 2.0) -> bytes:
        """Return the chart as PNG bytes, without a browser.

        Args:
            scale: pixels of the image per pixel of the chart.

        Raises:
            UsageError: vl-convert is not installed.
        """
        drawn: bytes = _converter().vegalite_to_png(
            self.to_dict(), vl_version=_newest_vega_lite(), scale=scale
        )
        return drawn

    def save(self, path: str | Path) -> None:
        """Write the chart to a file in the format of its suffix.

        Args:
            path: a path with suffix .svg, .png, or .json (Vega-Lite, which needs no package).

        Raises:
            UsageError: the suffix is unknown, or vl-convert is not installed.
            StoreError: the file cannot be written.
        """
        path = Path(path)
        if path.suffix == ".json":
            content = json.dumps(self.to_dict(), ensure_ascii=False).encode()
        elif path.suffix == ".svg":
            content = self.to_svg().encode()
        elif path.suffix == ".png":
            content = self.to_png()
        else:
            raise UsageError(
                f"{path}: a chart is saved as .svg, .png, or .json",
                hint=f"for example {path.with_suffix('.svg')}",
            )
        try:
            path.write_bytes(content)
        except OSError as error:
            raise StoreError(f"{path}: {error.strerror or error}") from error

    def __repr__(self) -> str:
        return f"<Chart {self.name}: {self.title}>"

    def _repr_html_(self) -> str:
        """Return the chart as SVG, or its rows as a table."""
        try:
            return self.to_svg()
        except UsageError:
            return "".join(result._repr_html_() for result in self.data.values())

    def _repr_mimebundle_(self, **kwargs: object) -> dict[str, Any]:
        """Return the chart for notebooks: as SVG, or as Vega-Lite."""
        del kwargs
        try:
            return {"image/svg+xml": self.to_svg(), "text/plain": repr(self)}
        except UsageError:
            return {MIME: self.to_dict(), "text/plain": f"{self!r} ({_INSTALL} to see it)"}


def _converter() -> Any:
    try:
        import vl_convert
    except ImportError:
        raise UsageError("vl-convert is not installed", hint=_INSTALL) from None
    return vl_convert


def _newest_vega_lite() -> str:
    known: Sequence[str] = _converter().get_vegalite_versions()
    return max(known, key=lambda version: [int(part) for part in version.split(".")])


def _value(value: Any) -> Any:
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    if isinstance(value, (list, tuple)):
        return [_value(item) for item in value]
    return str(value)
