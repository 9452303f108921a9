"""Color palette shared by the terminal, charts, reports, and exported traces.

Charts use the palette of Okabe and Ito (https://jfly.uni-koeln.de/color/), which people with common
color blindness can distinguish. Some colors are darker for contrast on white. The terminal uses
named colors and glyphs.
"""

from __future__ import annotations

import tomllib
from collections.abc import Sequence
from functools import cache
from importlib.resources import files
from typing import NamedTuple

from msgspec import Struct


class Colour(Struct, frozen=True):
    """A color: on a light page, on a dark page, and in the terminal."""

    light: str
    dark: str
    terminal: str


GREEN = Colour("#009e73", "#1fbf92", "green")
VERMILLION = Colour("#d55e00", "#f07f2e", "red")
ORANGE = Colour("#e69f00", "#f2b632", "yellow")
GREY = Colour("#9aa0a6", "#6b7178", "bright_black")
BLUE = Colour("#0072b2", "#3f9fdc", "blue")
SKY = Colour("#56b4e9", "#7cc7f2", "bright_blue")
PURPLE = Colour("#b5648f", "#d68fb5", "magenta")
OLIVE = Colour("#a89a1c", "#e6d84a", "bright_yellow")
SLATE = Colour("#5b5f8c", "#9a9fd6", "cyan")
INK = Colour("#3c4043", "#c9cdd2", "white")

NAMED = {
    "green": GREEN,
    "vermillion": VERMILLION,
    "orange": ORANGE,
    "grey": GREY,
    "blue": BLUE,
    "sky": SKY,
    "purple": PURPLE,
    "olive": OLIVE,
    "slate": SLATE,
    "ink": INK,
}
ALL = tuple(NAMED.values())

KIND = {"compute": GREEN, "comm": VERMILLION, "memcpy": ORANGE, "idle": GREY}
"""Colors of the kinds of device time."""


class TimePart(NamedTuple):
    """One part of a device window: name in SQL and columns, kind, label, and glyph."""

    name: str
    kind: str
    label: str
    glyph: str

    @property
    def short_label(self) -> str:
        """A short label, such as ``exposed comm``."""
        return self.name.replace("_", " ")

    @property
    def colour(self) -> Colour:
        """The color of its kind."""
        return KIND[self.kind]


PARTS = (
    TimePart("compute", "compute", "compute", "█"),
    TimePart("exposed_comm", "comm", "exposed communication", "▓"),
    TimePart("exposed_memcpy", "memcpy", "exposed copies", "▒"),
    TimePart("idle", "idle", "idle", "░"),
)
"""Parts of a device window in order of precedence, as in macro `time_part` and `timeline`."""

LABELS = {part.name: part.label for part in PARTS}
"""Label of each part by its name."""

PHASE = {
    "data": OLIVE,
    "forward": SKY,
    "recompute": PURPLE,
    "backward": BLUE,
    "optimizer": ORANGE,
    "evaluation": SLATE,
    "generation": GREEN,
    "reward": PURPLE,
    "weight_sync": VERMILLION,
    "prefill": SKY,
    "mixed": PURPLE,
    "decode": BLUE,
    "verify": OLIVE,
    "other": GREY,
}
"""Colors of the phases of a step."""

SERIES = (BLUE, ORANGE, GREEN, VERMILLION, SKY, PURPLE, OLIVE, SLATE, INK, GREY)
"""Colors for other series, in order of use."""


def classes(names: Sequence[str]) -> dict[str, Colour]:
    """Return the colors of kernel classes, which are the same in every output.

    The built-in rules define the colors. A class that only the user's rules define has the color of
    its kind (communication or copies) or a color derived from its name.
    """
    known = _classes()
    result = {}
    for name in names:
        kind = name.partition("_")[0]
        if name in known:
            result[name] = NAMED[known[name]["colour"]]
        elif kind in ("comm", "memcpy"):
            result[name] = KIND[kind]
        else:
            result[name] = SERIES[sum(name.encode()) % len(SERIES)]
    return result


@cache
def _classes() -> dict[str, dict[str, str]]:
    rules = (files("tracekit.queries") / "rules" / "kernel_class.toml").read_text("utf-8")
    classes: dict[str, dict[str, str]] = tomllib.loads(rules)["class"]
    return classes


def text_on(colour: str) -> str:
    """Return black or white, whichever has more contrast with a color #rrggbb.

    WCAG 2.2 defines contrast as (lighter + 0.05) / (darker + 0.05) of relative luminances.
    """
    parts = [int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)]
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in parts]
    luminance = sum(w * c for w, c in zip((0.2126, 0.7152, 0.0722), linear, strict=True))
    return "#000000" if (luminance + 0.05) / 0.05 >= 1.05 / (luminance + 0.05) else "#ffffff"


def series(names: Sequence[str]) -> dict[str, Colour]:
    """Return a color for each name. Colors repeat from the eleventh name onward."""
    return {name: SERIES[index % len(SERIES)] for index, name in enumerate(names)}
