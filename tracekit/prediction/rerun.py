"""Did it help: what was predicted beside what a rerun measured."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from tracekit.errors import StoreError, UsageError
from tracekit.prediction.advising import SEPARATOR, Advice, Candidate
from tracekit.prediction.changes import LIMIT, MOVE, TOKENS, parse_change
from tracekit.storage.local import LocalLocation

if TYPE_CHECKING:
    from tracekit.comparison.noise import Gain
    from tracekit.manifest import Manifest

FILE = Path("logs", "advice.json")
"""Where it stands in the folder of the rerun: beside its traces it would be read as one."""

_METHODS: dict[str, tuple[str, str]] = {
    "advice_recompute": ("R", ""),
    "advice_offload": ("O", ""),
    "advice_attention": ("", "F"),
}
"""By rule, the method of `tracekit collect --opt` that goes, and the one that comes."""

_LIMITS: dict[tuple[str, str], tuple[str, ...]] = {
    ("batch", LIMIT): ("--max-batch-requests", "--concurrency"),
    ("batch", TOKENS): ("--max-batch-tokens",),
    ("kv", TOKENS): ("--cache-blocks",),
    ("precision", MOVE): ("--precision",),
}
"""By keyword and action of a change, the options of `tracekit collect` that set it."""

_OF_ONE_RUN = {"--out": 1, "--force": 0, "--breakdown": 0, "--against": 1, "--rule": 1}
"""Options that a rerun does not take over, and how many values each has."""

Outcome = Literal["holds", "does not hold", "inconclusive"]


@dataclass(frozen=True, slots=True)
class Verdict:
    """A prediction beside the measurement; shares are of the figure before the change, %.

    Attributes:
        rule: what gave the advice.
        figure: what was to take less: a step (or the window without any), or a figure of a load.
        change: what was predicted.
        predicted_gain_pct: by how much it was to take less.
        predicted_low_pct: the least.
        predicted_high_pct: the most.
        measured_gain_pct: by how much it did.
        measured_low_pct: the least, as noise goes; None where there are too few steps to tell.
        measured_high_pct: the most.
        outcome: whether the two intervals meet; inconclusive where noise decides.
    """

    rule: str
    figure: str
    change: str
    predicted_gain_pct: float
    predicted_low_pct: float
    predicted_high_pct: float
    measured_gain_pct: float
    measured_low_pct: float | None
    measured_high_pct: float | None
    outcome: Outcome


def judge(advice: Advice, measured: Gain) -> Verdict:
    """Hold what was predicted against what two runs differ by."""
    low, high = advice.range_pct
    _, least, most, verdict = measured
    outcome: Outcome = "inconclusive"
    if least is not None and most is not None and verdict not in (None, "inconclusive"):
        outcome = "holds" if least <= high and low <= most else "does not hold"
    return Verdict(
        advice.candidate.rule,
        "step" if advice.load is None else advice.figure,
        SEPARATOR.join(advice.candidate.changes),
        advice.prediction.gain_pct or 0.0,
        *(low, high, *measured[:3], outcome),
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


def changed_command(run: Manifest, advice: Candidate, out: Path) -> list[str]:
    """Return the command of `tracekit collect` that records a run with an advice taken.

    Args:
        run: the manifest of the run.
        advice: what is changed.
        out: the folder of the rerun.

    Raises:
        UsageError: the collectors have no option for that, or the program is the user's own.
    """
    hint = "change the program, and record it with `tracekit collect … --against RUN`"
    words = [
        part
        for word in run.command
        for part in (word.split("=", 1) if word.startswith("--") else [word])
    ]
    if words[1:2] != ["collect"] or "--" in words:
        raise UsageError("this run is not of the collectors' own programs", hint=hint)
    options = options_of(run, advice, words)
    if not options:
        raise UsageError(f"the collectors have no option for {advice.rule}", hint=hint)
    for option, value_count in (*_OF_ONE_RUN.items(), *((name, 1) for name in options)):
        while option in words:
            place = words.index(option)
            del words[place : place + 1 + value_count]
    return [*words, *(word for option in options.items() for word in option), "--out", str(out)]


def options_of(run: Manifest, advice: Candidate, words: Sequence[str]) -> dict[str, str]:
    """Return the options by which `tracekit collect` takes an advice; none where it has none.

    Args:
        run: the manifest of the run.
        advice: what is changed.
        words: the command of the run. A limit of what runs is set where that has it set, by the
            engine or by the client.
    """
    if advice.rule in _METHODS:
        goes, comes = _METHODS[advice.rule]
        given = words[words.index("--opt") + 1] if "--opt" in words else ""
        methods = [one for one in given.split("+") if one not in ("", "Naive", goes)]
        return {"--opt": "+".join([*methods, *([comes] if comes else [])]) or "Naive"}
    options: dict[str, str] = {}
    for change in map(parse_change, advice.changes):
        count = change.count
        if change.keyword == "kv":
            count //= run.extra.get("engine", {}).get("page_size") or 1
        for name in _LIMITS.get((change.keyword or "", change.action), ()):
            if change.action != LIMIT or name in words:
                options[name] = str(count or change.device)
    return options
