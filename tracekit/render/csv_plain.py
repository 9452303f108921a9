"""CSV as format csv, but a text that a spreadsheet would run as a formula is left as it is.

For programs that read text as text.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TextIO

from tracekit.analysis.result import Result
from tracekit.render import csv


def render(data: Result | Mapping[str, Result], stream: TextIO, **_: bool) -> None:
    """Write a result or a breakdown as CSV, formulas and all."""
    csv.render(data, stream, keeps_formulas=True)
