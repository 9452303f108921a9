"""What an item found: claims that hold or do not, figures, and why something was not done.

An item writes one JSON object a line, as soon as it knows it, so that a time limit or a crash takes
nothing of what was found before.
"""

from __future__ import annotations

import json
import math
import time
import traceback
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

OUTCOMES = ("ok", "failed", "skipped", "left out")
_REASON_LENGTH = 600


class SkippedError(Exception):
    """Something cannot be tried here; the text is the reason."""


@dataclass(slots=True)
class Case:
    """One thing that an item tries.

    Attributes:
        name: what it is.
        claims: what was checked: claim, whether it holds, what was measured, what was wanted.
        figures: what was measured besides, by name with the unit.
        texts: longer results for the page, by title, in Markdown.
    """

    name: str
    claims: list[dict[str, Any]] = field(default_factory=list)
    figures: dict[str, Any] = field(default_factory=dict)
    texts: dict[str, str] = field(default_factory=dict)

    def claim(self, text: str, holds: bool, measured: object = None, wanted: str = "") -> None:
        """Note whether something holds; a case with a claim that does not hold has failed.

        Args:
            text: what is claimed.
            holds: whether it does.
            measured: what was found.
            wanted: what it is held against.
        """
        self.claims.append(
            {"claim": text, "holds": bool(holds), "measured": _plain(measured), "wanted": wanted}
        )

    def claim_close(self, text: str, measured: float, wanted: float, tolerance_pct: float) -> None:
        """Claim that two figures differ by no more than a share of the second."""
        apart_pct = 100 * abs(measured - wanted) / abs(wanted) if wanted else math.inf
        self.claim(
            text,
            apart_pct <= tolerance_pct,
            {"measured": measured, "wanted": wanted, "apart_pct": round(apart_pct, 3)},
            f"within {tolerance_pct:g} %",
        )

    def figure(self, **values: object) -> None:
        """Note figures; the unit is in the name."""
        self.figures |= {name: _plain(value) for name, value in values.items()}

    def text(self, title: str, markdown: str) -> None:
        """Note a longer result for the page."""
        self.texts[title] = markdown

    @property
    def broken(self) -> list[dict[str, Any]]:
        """The claims that do not hold."""
        return [claim for claim in self.claims if not claim["holds"]]


class Record:
    """Takes what the cases of an item find, and writes it down.

    Args:
        path: the file that takes a JSON object a line.
        item: name of the item.
    """

    def __init__(self, path: Path, item: str) -> None:
        self._path = path
        self._item = item

    @contextmanager
    def case(self, name: str) -> Iterator[Case]:
        """Try one thing: whatever it raises becomes its outcome, and the next one is tried.

        An exception for which `is_fatal` is true goes on, after it was written down.
        """
        case = Case(name)
        start = time.monotonic()
        print(f"case {name}", flush=True)
        outcome, reason = "ok", None
        fatal: BaseException | None = None
        try:
            yield case
        except SkippedError as error:
            outcome, reason = "skipped", str(error)
        except Exception as error:  # noqa: BLE001 - becomes the outcome of the case
            traceback.print_exc()
            outcome, reason = "failed", sentence(error)
            fatal = error if is_fatal(error) else None
        if outcome == "ok" and case.broken:
            outcome, reason = "failed", "; ".join(map(_told, case.broken))
        self.write(case, outcome, reason, time.monotonic() - start)
        print(f"case {name}: {outcome}{f': {reason}' if reason else ''}", flush=True)
        if fatal is not None:
            raise fatal

    def write(self, case: Case, outcome: str, reason: str | None, seconds: float) -> None:
        """Write down what became of a case."""
        row = {
            "item": self._item,
            "case": case.name,
            "outcome": outcome,
            "reason": None if reason is None else reason[:_REASON_LENGTH],
            "seconds": round(seconds, 1),
            "claims": case.claims,
            "figures": case.figures,
            "texts": case.texts,
        }
        with self._path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(row) + "\n")


def is_fatal(error: BaseException) -> bool:
    """Tell whether an error leaves the CUDA context of this process unusable."""
    text = str(error)
    if "out of memory" in text:
        return False
    return type(error).__name__ == "AcceleratorError" or "CUDA error" in text


def sentence(error: BaseException) -> str:
    """Return an error in one line."""
    first = str(error).strip().split("\n", 1)[0]
    return f"{type(error).__name__}: {first}" if first else type(error).__name__


def read(path: Path) -> list[dict[str, Any]]:
    """Return the rows of a record; a last line that was cut off is left out."""
    rows = []
    if path.is_file():
        for line in path.read_text("utf-8", "replace").splitlines():
            try:
                rows.append(json.loads(line))
            except ValueError:
                continue
    return rows


def row(item: str, outcome: str, reason: str, seconds: float = 0.0) -> dict[str, Any]:
    """Return a row for an item that wrote none itself."""
    return {
        "item": item,
        "case": item,
        "outcome": outcome,
        "reason": reason[:_REASON_LENGTH],
        "seconds": round(seconds, 1),
        "claims": [],
        "figures": {},
        "texts": {},
    }


def _told(claim: Mapping[str, Any]) -> str:
    wanted = f", wanted {claim['wanted']}" if claim["wanted"] else ""
    return f"{claim['claim']}: {json.dumps(claim['measured'])}{wanted}"


def _plain(value: object) -> Any:
    """Return a value as JSON can hold it."""
    if isinstance(value, float):
        return round(value, 6) if math.isfinite(value) else str(value)
    if isinstance(value, str | int | bool | None):
        return value
    if isinstance(value, Mapping):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, set | frozenset):
        return sorted(map(str, value))
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    return str(value)
