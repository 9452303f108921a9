"""CSV for programs: like format csv, but without protection against formulas."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TextIO

from tracekit.analysis.result import Result
from tracekit.render import csv


def render(data: Result | Mapping[str, Result], stream: TextIO, **_: bool) -> None:
    """Write a result or a breakdown as CSV with formulas unchanged."""
    csv.render(data, stream, keeps_formulas=True)
