"""`make advice`: checks whether advice names an injected fault first, with the correct gain.

    make advice ARGS="[--only TEXT] [--rounds N] [--steps N] [--seed N] [--out FILE]"

Real loops and a serving engine alternate between windows with and without the fault. A simulated
machine runs once with and once without it. Advice sees only runs with the fault.
"""

from __future__ import annotations

import argparse
import logging
import re
import statistics
import tempfile
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from msgspec import Struct
from msgspec.structs import replace

from tracekit.prediction.advising import FIGURES, STEP

if TYPE_CHECKING:
    from seeded_faults import Fault

    from tracekit.prediction.advising import Advice, Advised
    from tracekit.trace import Trace

PAGE = Path(__file__).resolve().parents[2] / "docs" / "explanation" / "predictions.md"
_LOG = logging.getLogger("advice")


class Judged(Struct, frozen=True):
    """Advice about a fault, and the measured effect of removing the fault, in percent."""

    name: str
    expected: str | None
    cause: str | None
    figure: str | None = None
    gain_pct: float | None = None
    low_pct: float | None = None
    high_pct: float | None = None
    true_pct: float | None = None

    @property
    def is_named(self) -> bool:
        """Whether the cause is named first; without a fault, whether there is no advice."""
        return self.cause == self.expected

    @property
    def contains_measured(self) -> bool:
        """Whether the interval of the gain contains the measured gain."""
        if self.low_pct is None or self.high_pct is None or self.true_pct is None:
            return False
        return self.low_pct <= self.true_pct <= self.high_pct

    def line(self) -> str:
        """Return the row of the Markdown table."""
        cells = [self.name, self.expected or "–", self.cause or "–", self.figure or "–"]
        if self.gain_pct is None:
            cells += ["–", "–", "–"]
        else:
            cells.append(f"{self.gain_pct:.1f}")
            cells.append(f"{self.low_pct:.1f} to {self.high_pct:.1f}")
            cells.append("–" if self.true_pct is None else f"{self.true_pct:.1f}")
        cells += ["yes" if self.is_named else "**no**"]
        cells += ["–" if self.true_pct is None else "yes" if self.contains_measured else "**no**"]
        return f"| {' | '.join(cells)} |"


def simulated(fault: Fault) -> Judged:
    """Judge the advice for a simulated machine."""
    from simulated_machine import simulate
    from simulated_program import Machine

    import tracekit

    took = []
    for options in (fault.faulty, fault.healthy):
        with tempfile.TemporaryDirectory(prefix="tracekit-advice-") as name:
            simulate(Machine(**options)).write(Path(name))
            with tracekit.open(name, cache=False) as trace:
                if not took:
                    advised = trace.advise(is_recorded=True)
                took.append(_figures(trace, advised))
    if fault.rule is None:
        return _judged(fault, [advised], {})
    [before, after] = took
    return _judged(fault, [advised], {STEP: 100 * (1 - after[STEP] / before[STEP])})


def real(fault: Fault, rounds: int, steps: int) -> Judged:
    """Judge the advice for a loop, or for a load on an engine, on this machine."""
    from predictions.__main__ import record
    from predictions.pairs import Pair

    import tracekit

    pair = Pair(fault.name, fault.faulty, fault.healthy, ranks=fault.ranks, script=fault.script)
    with tempfile.TemporaryDirectory(prefix="tracekit-advice-") as name:
        folder = Path(name)
        if fault.is_asked:
            record(pair, folder, 1, steps)
            pair = replace(pair, b=pair.b | _first_options(folder / "a0"))
        record(pair, folder, rounds, steps)
        advised, before, after = [], [], []
        for number in range(rounds):
            with tracekit.open(folder / f"a{number}", cache=False) as trace:
                advised.append(trace.advise(is_recorded=True))
                before.append(_figures(trace, advised[-1]))
            with tracekit.open(folder / f"b{number}", cache=False) as trace:
                after.append(_figures(trace, advised[-1]))
    gains = {
        figure: 100 * (1 - _median(after, figure) / _median(before, figure))
        for figure in {*before[0]}.intersection(*before, *after)
        if fault.rule is not None
    }
    return _judged(fault, advised, gains)


def _first_options(run: Path) -> dict[str, Any]:
    """Return the options of the first advice that have numbers."""
    import tracekit
    from tracekit import manifest
    from tracekit.prediction.rerun import options_of

    with tracekit.open(run, cache=False) as trace:
        advice = trace.advise(is_recorded=True).advice
    if not advice:
        return {}
    candidate = advice[0].candidate
    if (run / manifest.FILE_NAME).is_file():
        run_manifest = manifest.read(run)
        return dict(options_of(run_manifest, candidate, run_manifest.command))
    workers = re.fullmatch(r"loading workers=(\d+)", candidate.changes[0])
    return {"workers": int(workers[1])} if workers else {}


def _figures(trace: Trace, advised: Advised) -> dict[str, float]:
    """Return the figures of a run to which the gain of the first advice may refer."""
    from predictions import serving

    if advised.advice and advised.advice[0].load:
        return {
            FIGURES[name]: value if name.endswith("_ns") else 1e9 / value
            for name, value in serving.seen(trace).items()
        }
    if not trace.sql("SELECT 1 FROM trace LIMIT 1"):
        return {}
    return {STEP: float(trace.predict("host x1", is_recorded=True).before_step_ns)}


def _median(rounds: Sequence[Mapping[str, float]], figure: str) -> float:
    return statistics.median(one[figure] for one in rounds)


def _judged(fault: Fault, advised: Sequence[Advised], gains: Mapping[str, float]) -> Judged:
    """Return the most common first advice. `gains` are the measured gains by figure, %."""
    first = [(_cause(fault, one.advice[0]), one.advice[0].figure) if one.advice else (None, None)
             for one in advised]  # fmt: skip
    subject, figure = Counter(first).most_common(1)[0][0]
    results = [
        one.advice[0]
        for one, name in zip(advised, first, strict=True)
        if one.advice and name == (subject, figure)
    ]
    expected = fault.rule and ": ".join(filter(None, (fault.rule, fault.place)))
    if figure is None:
        return Judged(fault.name, expected, subject, true_pct=gains.get(STEP))
    median = statistics.median
    return Judged(
        fault.name,
        expected,
        subject,
        figure,
        median(one.prediction.gain_pct or 0.0 for one in results),
        median(one.prediction.range_pct[0] for one in results),
        median(one.prediction.range_pct[1] for one in results),
        gains.get(figure),
    )


def _cause(fault: Fault, advice: Advice) -> str:
    """Return the rule of a suggestion, with its location if that determines the cause."""
    rule, place = advice.candidate.rule, advice.candidate.place or ""
    if fault.place and rule == fault.rule:
        return f"{rule}: {fault.place if place.endswith(fault.place) else place}"
    return rule


def main(arguments: Sequence[str] | None = None) -> None:
    """Judge all faults and log the table."""
    parser = argparse.ArgumentParser(prog="make advice")
    parser.add_argument("--only", default="", help="text in the names of faults")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--steps", type=int, default=6)
    parser.add_argument("--seed", type=int, default=20261126)
    parser.add_argument("--out", type=Path, default=PAGE)
    parser.add_argument("--real", action="store_true", help="only real loops")
    parsed = parser.parse_args(arguments)
    import made_parts
    from advice.real_faults import real_faults, real_healthy, serving_faults, third_party_faults
    from seeded_faults import simulated_faults, simulated_healthy

    logging.basicConfig(level=logging.INFO, format="%(message)s")
    judged = []
    for is_real, faults in (
        (False, [*simulated_faults(parsed.seed), *simulated_healthy(parsed.seed)]),
        (
            True,
            [
                one
                for make in (real_faults, third_party_faults, serving_faults, real_healthy)
                for one in make(parsed.seed)
            ],
        ),
    ):
        for fault in faults:
            if parsed.only not in fault.name or (parsed.real and not is_real):
                continue
            began = time.monotonic()
            try:
                one = real(fault, parsed.rounds, parsed.steps) if is_real else simulated(fault)
            except RuntimeError as error:  # the recorded program failed or hung
                one = Judged(fault.name, fault.rule, f"no answer: {error}"[-200:])
            judged.append(one)
            _LOG.info("%s  (%.0f s)", judged[-1].line(), time.monotonic() - began)
    text = parsed.out.read_text("utf-8")
    make = table(judged, parsed.seed)
    parsed.out.write_text(made_parts.filled(text, "make advice", make), "utf-8")
    _LOG.info("%s", summary(judged))


def summary(judged: Sequence[Judged]) -> str:
    """Return a summary of the rows."""
    faults = [one for one in judged if one.expected]
    healthy = [one for one in judged if one.expected is None]
    measured = [one for one in faults if one.is_named and one.true_pct is not None]
    return (
        f"{sum(one.is_named for one in faults)} of {len(faults)} causes are ranked first; "
        "the interval contains the measured gain in "
        f"{sum(one.contains_measured for one in measured)} of these {len(measured)}; "
        f"{sum(one.cause is None for one in healthy)} of {len(healthy)} healthy programs get no "
        "advice."
    )


def table(judged: Sequence[Judged], seed: int) -> str:
    """Return the rows as Markdown."""
    head = (
        "| program | cause | first advice | gain of | gain, % | interval, % | measured, % "
        "| cause is first | in interval |\n"
        "| --- | --- | --- | --- | --- | --- | --- | --- | --- |\n"
    )
    rows = "".join(f"{one.line()}\n" for one in judged)
    return f"Seed {seed}. {summary(judged)}\n\n{head}{rows}"


if __name__ == "__main__":
    main()
