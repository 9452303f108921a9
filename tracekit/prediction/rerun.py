"""Compares a prediction with a measured rerun."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from msgspec import Struct
from msgspec.structs import asdict

from tracekit.errors import StoreError, UsageError
from tracekit.prediction.advising import SEPARATOR, Advice, Candidate
from tracekit.prediction.changes import LIMIT, MOVE, TOKENS, parse_change
from tracekit.storage.local import LocalLocation

if TYPE_CHECKING:
    from tracekit.comparison.noise import Gain
    from tracekit.manifest import Manifest

FILE = Path("logs", "advice.json")
"""File for the verdict, relative to the folder of the rerun."""

_METHODS: dict[str, tuple[str, str]] = {
    "advice_recompute": ("R", ""),
    "advice_offload": ("O", ""),
    "advice_attention": ("", "F"),
}
"""Methods of `tracekit collect --opt` that following a rule removes and adds."""

_HINT = "change the program, and record it with `tracekit collect … --against RUN`"

_LIMITS: dict[tuple[str, str], tuple[str, ...]] = {
    ("batch", LIMIT): ("--max-batch-requests", "--concurrency"),
    ("batch", TOKENS): ("--max-batch-tokens",),
    ("kv", TOKENS): ("--cache-blocks",),
    ("precision", MOVE): ("--precision",),
}
"""Options of `tracekit collect` that apply a change, by keyword and action."""

_COUNT, _RATE, _NAME = r"\d{1,9}", r"[\d.eE+-]{1,24}", r"[A-Za-z][\w:+-]{0,63}"

_KEPT: dict[str, str | None] = {
    "--stage": "pretrain|finetune|serve",
    "--model": "tiny|llama2-(7|13|70)b",
    "--engine": "deepspeed|ddp|fsdp2|megatron|transformers",
    "--precision": "bf16|fp16|fp32",
    "--preset": "paper",
    "--opt": _NAME,
    "--learning-rate": _RATE,
    "--gc-density": _RATE,
    "--memory-limit": r"\d{1,9}(\.\d{1,9})?[KMGkmg]?[Ii]?[Bb]?",
    "--arrival": r"burst|(poisson|constant):[\d.eE+-]{1,24}",
    "--timeout": _RATE,
    **dict.fromkeys(("--profile-after", "--profile-for"), r"[\d.]{1,24}[%s]?"),
    **dict.fromkeys(
        (
            *("--layers", "--seed", "--nproc", "--tp", "--gc-rank", "--batch-size", "--seq-len"),
            *("--warmup", "--steps", "--repeats", "--profile-steps", "--requests", "--prompt-len"),
            *("--max-new-tokens", "--concurrency", "--warmup-requests", "--retries"),
            *("--cache-blocks", "--page-size", "--max-batch-tokens", "--max-batch-requests"),
        ),
        _COUNT,
    ),
    **dict.fromkeys(
        (
            *("--fixed-batch", "--with-stack", "--with-flops", "--profile-memory", "--no-shapes"),
            *("--backward-ranges", "--nvtx", "--no-light-steps"),
        )
    ),
}
"""Options of `tracekit collect` that a rerun keeps, with the pattern of their values (None: flag).

Run folders are untrusted, so none of these options names a program, a server, a path, or a request
body.
"""

_DROPPED = {"--out": 1, "--force": 0, "--breakdown": 0, "--against": 1, "--rule": 1}
"""Options that apply to one run only, with their number of values."""

Outcome = Literal["holds", "does not hold", "inconclusive"]


class Verdict(Struct, frozen=True):
    """A prediction and the measurement. Shares are percent of the figure before the change."""

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
    low, high = advice.prediction.range_pct
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


def save_verdict(verdict: Verdict, folder: Path) -> None:
    path = folder / FILE
    try:
        path.parent.mkdir(exist_ok=True)
        LocalLocation(path).write_bytes(json.dumps(asdict(verdict), indent=2).encode())
    except OSError as error:
        raise StoreError(f"{path}: cannot be written: {error.strerror or error}") from error


def changed_command(run: Manifest, advice: Candidate, out: Path) -> list[str]:
    """Return the command of `tracekit collect` that records a run with a change applied."""
    if run.command[1:2] != ["collect"] or "--" in run.command:
        raise UsageError(
            "--try supports only the built-in workloads of tracekit collect", hint=_HINT
        )
    options = _repeated_options(run.command[2:])
    changed = options_of(run, advice, options)
    if not changed:
        raise UsageError(f"tracekit collect has no option for {advice.rule}", hint=_HINT)
    words = ["tracekit", "collect"]
    for name, value in {**options, **changed}.items():
        words += [name] if value is None else [name, value]
    return [*words, "--out", str(out)]


def _repeated_options(words: list[str]) -> dict[str, str | None]:
    """Return the options of a run's command that a rerun keeps; raise a UsageError for others."""
    result: dict[str, str | None] = {}
    rest = [part for word in words
            for part in (word.split("=", 1) if word.startswith("--") else [word])]  # fmt: skip
    while rest:
        name = rest.pop(0)
        if name in _DROPPED:
            del rest[: _DROPPED[name]]
            continue
        form = _KEPT.get(name)
        value = rest.pop(0) if form is not None and rest else None
        if name not in _KEPT or (
            form is not None and not re.fullmatch(form, value or "", re.ASCII)
        ):
            shown = f"{name} {value}" if value is not None else name
            raise UsageError(
                f"the command of the run has {shown[:80]}, which --try does not repeat",
                hint=_HINT,
            )
        result[name] = value
    return result


def options_of(run: Manifest, advice: Candidate, given: Mapping[str, str | None]) -> dict[str, str]:
    """Return the options of `tracekit collect` that apply a change; empty if there are none.

    Whether a limit applies to the engine or to the client depends on the `given` options.
    """
    if advice.rule in _METHODS:
        goes, comes = _METHODS[advice.rule]
        methods = [
            one
            for one in (given.get("--opt") or "").split("+")
            if one not in ("", "Naive", goes, comes)
        ]
        return {"--opt": "+".join([*methods, *([comes] if comes else [])]) or "Naive"}
    options: dict[str, str] = {}
    for change in map(parse_change, advice.changes):
        count = change.count
        if change.keyword == "kv":
            count //= _page_size(run)
        for name in _LIMITS.get((change.keyword or "", change.action), ()):
            if change.action != LIMIT or name in given:
                options[name] = str(count or change.device)
    return options


def _page_size(run: Manifest) -> int:
    engine = run.extra.get("engine")
    size = engine.get("page_size") if isinstance(engine, dict) else None
    return size if isinstance(size, int) and size > 0 else 1
