"""Did it help: what was predicted beside what a rerun measured."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from tracekit.errors import StoreError, UsageError
from tracekit.prediction.advising import SEPARATOR, Advice
from tracekit.storage.local import LocalLocation

if TYPE_CHECKING:
    from tracekit.comparison.noise import Difference

FILE = Path("logs", "advice.json")
"""Where it stands in the folder of the rerun: beside its traces it would be read as one."""

_METHODS: dict[str, tuple[str, str]] = {
    "advice_recompute": ("R", ""),
    "advice_offload": ("O", ""),
    "advice_attention": ("", "F"),
}
"""By rule, the method of `tracekit collect --opt` that goes, and the one that comes."""

Outcome = Literal["holds", "does not hold", "inconclusive"]


@dataclass(frozen=True, slots=True)
class Verdict:
    """A prediction beside the measurement; shares are of the step or window before the change, %.

    Attributes:
        rule: what gave the advice.
        change: what was predicted.
        predicted_gain_pct: by how much a step was to take less.
        predicted_low_pct: the least.
        predicted_high_pct: the most.
        measured_gain_pct: by how much it did.
        measured_low_pct: the least, as noise goes; None where there are too few steps to tell.
        measured_high_pct: the most.
        outcome: whether the two intervals meet; inconclusive where noise decides.
    """

    rule: str
    change: str
    predicted_gain_pct: float
    predicted_low_pct: float
    predicted_high_pct: float
    measured_gain_pct: float
    measured_low_pct: float | None
    measured_high_pct: float | None
    outcome: Outcome


def judge(advice: Advice, measured: Difference) -> Verdict:
    """Hold what was predicted against the difference of two runs."""
    low, high = advice.range_pct
    gain = -(measured.difference_pct or 0.0)
    least = None if measured.high_pct is None else -measured.high_pct
    most = None if measured.low_pct is None else -measured.low_pct
    outcome: Outcome = "inconclusive"
    if least is not None and most is not None and measured.verdict != "inconclusive":
        outcome = "holds" if least <= high and low <= most else "does not hold"
    return Verdict(
        advice.candidate.rule,
        SEPARATOR.join(advice.candidate.changes),
        advice.prediction.gain_pct or 0.0,
        *(low, high, gain, least, most, outcome),
    )


def keep(verdict: Verdict, folder: Path) -> None:
    """Write a verdict into a run folder.

    Raises:
        StoreError: it cannot be written.
    """
    path = folder / FILE
    try:
        path.parent.mkdir(exist_ok=True)
        LocalLocation(path).write_bytes(json.dumps(asdict(verdict), indent=2).encode())
    except OSError as error:
        raise StoreError(f"{path}: cannot be written: {error.strerror or error}") from error


def changed_command(command: Sequence[str], rule: str, out: Path) -> list[str]:
    """Return the command of `tracekit collect` that records a run with an advice taken.

    Args:
        command: the one of the run.
        rule: what gave the advice.
        out: the folder of the rerun.

    Raises:
        UsageError: the collectors have no option for that, or the program is the user's own.
    """
    hint = "change the program, and record it with `tracekit collect … --against RUN`"
    words = [*command]
    if words[1:2] != ["collect"] or "--" in words:
        raise UsageError("this run is not of the collectors' own programs", hint=hint)
    if rule not in _METHODS:
        raise UsageError(f"the collectors have no option for {rule}", hint=hint)
    for option, value_count in (("--out", 1), ("--force", 0), ("--breakdown", 0)):
        while option in words:
            place = words.index(option)
            del words[place : place + 1 + value_count]
    goes, comes = _METHODS[rule]
    if "--opt" not in words:
        words += ["--opt", "Naive"]
    place = words.index("--opt") + 1
    methods = [one for one in words[place].split("+") if one not in ("Naive", goes)]
    words[place] = "+".join([*methods, *([comes] if comes else [])]) or "Naive"
    return [*words, "--out", str(out)]
