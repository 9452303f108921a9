"""Predicts a serving run with another load or engine setting by simulation."""

from __future__ import annotations

import math
import statistics
from collections import defaultdict
from collections.abc import Mapping, Sequence
from functools import cached_property
from operator import sub
from typing import TYPE_CHECKING, Any

from msgspec import Struct
from msgspec.structs import asdict, replace

from tracekit.analysis.result import Column, Result, ShownAsTable
from tracekit.errors import QueryError
from tracekit.prediction.batching import Engine, Request, Serving, StepTime, Work, free_at
from tracekit.prediction.changes import APART, LIMIT, Change
from tracekit.prediction.predicting import MARGIN, MARGIN_OF_CHANGE
from tracekit.prediction.step_times import StepTimes, Timed
from tracekit.units import NS_PER_S

if TYPE_CHECKING:
    import duckdb

MEASURES = (
    *(f"{what}_{which}_ns" for what in ("ttft", "tpot") for which in ("mean", "p50", "p99")),
    "itl_p99_ns",
    "output_tokens_per_s",
)
"""Predicted figures, as defined by the analyses `latency` (from arrival) and `throughput`."""

WORST_PCT: Mapping[str, float] = {"ttft_mean_ns": 20, "tpot_mean_ns": 10, "output_tokens_per_s": 10}
"""Maximum error of the unchanged simulation for a prediction, %."""

_UNKNOWN_PCT = 5.0
"""Maximum share of time in steps that are unlike all recorded steps."""

_DRAWS = 41

_MAX_PARTS = 10_000
"""Maximum number of prefill steps of a single prompt."""

_RUNS = """
SELECT
    run_id, folder_name, engine, load_concurrency,
    try_cast(extra ->> '$.engine.max_requests_per_batch' AS BIGINT),
    try_cast(extra ->> '$.engine.max_batch_tokens' AS BIGINT),
    try_cast(extra ->> '$.engine.num_blocks' AS BIGINT),
    coalesce(try_cast(extra ->> '$.engine.page_size' AS BIGINT), 1),
    coalesce(extra ->> '$.engine.scheduler_type', 'fifo'),
    (model, engine, precision, attention_backend, tensor_size, host_name)
FROM run
WHERE run_id IN (SELECT run_id FROM request)
ORDER BY rowid
"""

_REQUESTS = """
WITH span AS (
    SELECT request_id, list([first_step, last_step] ORDER BY first_step) AS steps
    FROM request_step
    WHERE run_id = $run
    GROUP BY request_id
)

SELECT
    q.arrival_ns, q.sent_ns, q.prompt_token_count, q.output_token_count,
    coalesce(q.first_token_ns, q.token_ns[1]), q.end_ns, q.token_ns, coalesce(s.steps, []),
    q.outcome = 'ok' AND q.token_counts IS NULL AND len(q.token_ns) = q.output_token_count
        AND q.prompt_token_count > 0 AND q.prompt_source IS DISTINCT FROM 'text'
        AND q.arrival_ns IS NOT NULL AND q.sent_ns IS NOT NULL AND q.end_ns IS NOT NULL
FROM request AS q
LEFT JOIN span AS s USING (request_id)
WHERE q.run_id = $run AND NOT q.is_warmup AND NOT q.is_profiled
ORDER BY q.sent_ns, q.request_id
"""

_FREE_PCT_OF_TRANSFORMERS = 15.0
"""Free share of the cache below which transformers' FIFO scheduler admits no prompt."""

_ASSUMPTIONS = (
    "prompts and answers have their recorded lengths",
    "a step decodes all running requests, then prefills prompts in order, like the recorded steps",
    (
        "a step takes as long as recorded ones with the same prefill tokens, decoded "
        "requests, and context"
    ),
)


_ROWS = ("recorded", "replayed", "predicted", "low", "high")


class ServingPrediction(ShownAsTable, Struct, frozen=True):
    """Figures of a load under changes, keyed by the names in :data:`MEASURES`, in ns and tokens/s.

    `replayed` is the unchanged simulation. If it is too inaccurate, `predicted` is None.
    """

    changes: tuple[str, ...]
    recorded: Mapping[str, float]
    replayed: Mapping[str, float]
    predicted: Mapping[str, float] | None
    low: Mapping[str, float]
    high: Mapping[str, float]
    assumptions: tuple[str, ...]
    reason: str | None = None

    def as_dict(self) -> dict[str, object]:
        members = asdict(self)
        return {"change": "; ".join(members.pop("changes"))} | members

    def as_result(self) -> Result:
        columns = [
            Column(name, "BIGINT" if name.endswith("_ns") else "DOUBLE") for name in MEASURES
        ]
        rows = [
            (name, *((getattr(self, name) or {}).get(measure) for measure in MEASURES))
            for name in _ROWS
        ]
        return Result("predict", (Column("run", "VARCHAR"), *columns), rows)


class _Recorded(Struct, frozen=True):
    name: str
    requests: Sequence[Request]
    engine: Engine
    seen: Mapping[str, float]
    steps: Sequence[Timed]


class LoadPredictor:
    """Simulates one recorded load with changes. The first run of the store is predicted.

    Other runs of the same model and engine only add step times.
    """

    def __init__(self, connection: duckdb.DuckDBPyConnection) -> None:
        rows = connection.execute(_RUNS).fetchall()
        if not rows:
            raise QueryError("the change needs a serving run with recorded requests")
        if any(row[-1] != rows[0][-1] for row in rows):
            raise QueryError(
                "the runs differ in model, engine, precision, tensor size, or host: "
                "predict each alone"
            )
        runs = [_recorded(connection, row) for row in rows]
        self._run = runs[0]
        steps, self._assumptions = list(runs[0].steps), list(_ASSUMPTIONS)
        for other in runs[1:]:
            ratio = StepTimes(other.steps).ratio(runs[0].steps)
            if ratio is None:
                raise QueryError(f"{other.name}: no step is similar to a step of {rows[0][1]}")
            steps += [replace(step, dur_ns=round(step.dur_ns * ratio)) for step in other.steps]
            self._assumptions.append(
                f"steps of {other.name} are included, scaled by {ratio:.2f} to match similar steps"
            )
        self._times = StepTimes(steps)

    @cached_property
    def _before(self) -> list[Mapping[str, float]]:
        run = self._run
        return [
            _measured(run.requests, run.engine, self._times.drawn(seed))[0]
            for seed in range(_DRAWS)
        ]

    def predict(self, changes: Sequence[Change], *, is_bounded: bool = False) -> ServingPrediction:
        """Predict the load with all of these changes.

        If too much time is in steps unlike all recorded steps, raise a QueryError or, with
        `is_bounded`, bound their time.
        """
        run, times = self._run, self._times
        assumptions = [*self._assumptions]
        requests, engine, measured = run.requests, run.engine, _measured
        for change in changes:
            requests, engine = _changed(requests, engine, change)
            if change.action == APART:
                measured = _measured_apart
            assumptions += _assumed(change, run.engine)
        usual = times.bounded(times.usual(), 0.5) if is_bounded else times.usual()
        unknown_pct, how = times.unknown(measured(requests, engine, usual)[1])
        if unknown_pct > _UNKNOWN_PCT and not is_bounded:
            raise QueryError(
                f"{how}: {unknown_pct:.0f} % of the time would be in steps unlike any recorded one",
                hint="record a run with such steps, and add its folder after this one",
            )
        if unknown_pct and is_bounded:
            assumptions.append(
                f"{unknown_pct:.0f} % of the time is in steps unlike any recorded one: "
                "the interval ranges from the time of the nearest recorded steps to "
                "their time scaled with the amount of work"
            )
        elif unknown_pct:
            assumptions.append(
                f"steps unlike any recorded one take {unknown_pct:.1f} % of the time: {how}"
            )

        def drawn(seed: int) -> Mapping[str, float]:
            step_ns = times.drawn(seed)
            if is_bounded:
                step_ns = times.bounded(step_ns, seed / (_DRAWS - 1))
            return measured(requests, engine, step_ns)[0]

        after = [drawn(seed) for seed in range(_DRAWS)]
        replayed, predicted = (
            {name: statistics.median(draw[name] for draw in draws) for name in MEASURES}
            for draws in (self._before, after)
        )
        low, high = {}, {}
        for name in MEASURES:
            low[name], high[name] = _interval(
                run.seen[name], replayed[name], sorted(draw[name] for draw in after)
            )
        missed = {
            name: 100 * (replayed[name] / run.seen[name] - 1)
            for name in WORST_PCT
            if run.seen[name]
        }
        reason = "; ".join(
            f"the simulation of the unchanged run misses the recorded {name} by {pct:+.0f} %"
            for name, pct in missed.items()
            if abs(pct) > WORST_PCT[name]
        )
        return ServingPrediction(
            tuple(change.text for change in changes),
            run.seen,
            replayed,
            None if reason else predicted,
            low,
            high,
            tuple(assumptions),
            reason or None,
        )


_Steps = Sequence[tuple[Work, int]]


def _measured(
    requests: Sequence[Request], engine: Engine, step_ns: StepTime
) -> tuple[Mapping[str, float], _Steps]:
    served = Serving(requests, engine, step_ns)
    measures = _measures(
        requests, served.sent_ns, served.first_ns, served.end_ns, _gaps(served.steps)
    )
    return measures, served.steps


def _measured_apart(
    requests: Sequence[Request], engine: Engine, step_ns: StepTime
) -> tuple[Mapping[str, float], _Steps]:
    """Simulate separate engines for prefill and decode."""
    alone = [request._replace(output_token_count=1) for request in requests]
    read = Serving(alone, replace(engine, batch_limit=None), step_ns)
    order = sorted(
        (place for place, request in enumerate(requests) if request.output_token_count > 1),
        key=lambda place: read.first_ns[place],
    )
    moved = [requests[place]._replace(arrival_ns=read.first_ns[place], lag_ns=0) for place in order]
    decoded = Serving(moved, engine, step_ns, is_read=True)
    ends = list(read.first_ns)
    for place, end in zip(order, decoded.end_ns, strict=True):
        ends[place] = end
    steps = [*read.steps, *decoded.steps]
    return _measures(requests, read.sent_ns, read.first_ns, ends, _gaps(decoded.steps)), steps


def _gaps(steps: _Steps) -> list[tuple[int, int]]:
    """Return times between tokens with their counts: one per step and running request."""
    return [(took_ns, work.decode_count) for work, took_ns in steps if work.decode_count]


def _measures(
    requests: Sequence[Request],
    sent: Sequence[int],
    first: Sequence[int],
    end: Sequence[int],
    gaps: Sequence[tuple[int, int]],
) -> dict[str, float]:
    ttft = sorted(at - request.arrival_ns for at, request in zip(first, requests, strict=True))
    tpot = sorted(
        round((last - at) / (request.output_token_count - 1))
        for at, last, request in zip(first, end, requests, strict=True)
        if request.output_token_count > 1
    )
    result: dict[str, float] = {}
    for what, values in (("ttft", ttft), ("tpot", tpot)):
        count = len(values)
        result[f"{what}_mean_ns"] = round(statistics.fmean(values)) if values else 0
        for pct in (50, 99):
            # Nearest-rank percentile, as in analysis `latency`.
            result[f"{what}_p{pct}_ns"] = values[-(-pct * count // 100) - 1] if values else 0
    remaining = sum(count for _, count in gaps) // 100 + 1
    result["itl_p99_ns"] = 0
    for gap_ns, count in sorted(gaps, reverse=True):
        remaining -= count
        if remaining <= 0:
            result["itl_p99_ns"] = gap_ns
            break
    tokens = sum(request.output_token_count for request in requests)
    result["output_tokens_per_s"] = NS_PER_S * tokens / max(max(end) - min(sent), 1)
    return result


def _interval(seen: float, replayed: float, draws: Sequence[float]) -> tuple[float, float]:
    """Return the interval of a figure, from draws and the error of the unchanged simulation."""
    usual = statistics.median(draws)
    values = [draws[len(draws) // 40], draws[-1 - len(draws) // 40]]
    values += [value * seen / replayed for value in values] if replayed else []
    margin = MARGIN * usual + MARGIN_OF_CHANGE * abs(usual - replayed)
    low, high = max(min(values) - margin, 0), max(values) + margin
    is_whole = isinstance(draws[0], int)
    return (math.floor(low), math.ceil(high)) if is_whole else (low, high)


def _changed(
    requests: Sequence[Request], engine: Engine, change: Change
) -> tuple[Sequence[Request], Engine]:
    if change.keyword == "rate":
        first = requests[0].arrival_ns
        if all(request.arrival_ns == first for request in requests):
            raise QueryError(
                f"{change.text}: all requests arrived at once, so there is no rate to change"
            )
        return [
            request._replace(arrival_ns=first + round((request.arrival_ns - first) / change.factor))
            for request in requests
        ], engine
    if change.keyword == "batch" and change.action == LIMIT:
        client = None if engine.in_flight_limit is None else change.count
        return requests, replace(engine, batch_limit=change.count, in_flight_limit=client)
    if change.keyword == "batch":
        return requests, replace(engine, batch_token_count=change.count)
    if change.keyword == "kv":
        pages = change.count // engine.page_token_count
        return requests, replace(engine, page_count=pages)
    if engine.in_flight_limit is not None:
        raise QueryError(
            f"{change.text}: the client limited the requests to the capacity of one engine"
        )
    return requests, replace(engine, page_count=None)


def _assumed(change: Change, engine: Engine) -> list[str]:
    if change.keyword == "rate":
        return [f"requests arrive in the recorded order, with gaps divided by {change.factor:g}"]
    if change.action == LIMIT and engine.in_flight_limit is not None:
        return ["the client delays requests above the limit"]
    if change.action == APART:
        return [
            "a second engine like this one decodes, with room for all keys and values",
            "transferring keys and values takes no time",
        ]
    if change.keyword == "kv" and engine.page_count is None:
        return ["the recorded run has no limit of KV cache pages: its cache was never full"]
    return []


def _recorded(connection: duckdb.DuckDBPyConnection, row: Sequence[Any]) -> _Recorded:
    run_id, name, kind, concurrency, requests, tokens, pages, page, scheduler, _ = row
    rows = connection.execute(_REQUESTS, {"run": run_id}).fetchall()
    if not any(each[-2] for each in rows):
        raise QueryError(
            f"{name}: its requests do not record the engine steps that served them",
            hint="record them with tracekit collect --stage serve --engine transformers",
        )
    if not all(each[-1] and each[-2] for each in rows):
        raise QueryError(
            f"{name}: some requests lack a complete answer, token times, or a known prompt, "
            "so the work of the steps is unknown"
        )
    if scheduler != "fifo" or any(len(each[-2]) > 1 for each in rows):
        raise QueryError(
            f"{name}: the scheduler is not FIFO, or requests were idle while others ran; the "
            "simulation covers neither"
        )
    ends = sorted(each[5] for each in rows)
    wanted = [
        Request(
            arrival,
            max(sent - max(arrival, free_at(ends, place, concurrency) or 0), 0),
            prompt,
            output,
        )
        for place, (arrival, sent, prompt, output, *_) in enumerate(rows)
    ]
    steps, wake_ns = _steps(name, rows, tokens)
    engine = Engine(
        concurrency, requests, tokens, pages, max(page, 1),
        _FREE_PCT_OF_TRANSFORMERS if kind == "transformers" else 0.0, wake_ns,
    )  # fmt: skip
    sent, first, end = ([each[column] for each in rows] for column in (1, 4, 5))
    gaps = [(gap_ns, 1) for each in rows for gap_ns in map(sub, each[6][1:], each[6])]
    return _Recorded(name, wanted, engine, _measures(wanted, sent, first, end, gaps), steps)


def _steps(
    name: str, result: Sequence[Sequence[Any]], tokens: int | None
) -> tuple[list[Timed], int]:
    """Return the steps of a run, and the time in which an idle engine starts a step, ns."""
    decodes: defaultdict[int, int] = defaultdict(int)
    context: defaultdict[int, int] = defaultdict(int)
    readers: defaultdict[int, list[int]] = defaultdict(list)
    new: defaultdict[int, list[int]] = defaultdict(list)
    end_ns: dict[int, int] = {}
    answered: list[range] = []  # steps that produced tokens of a request
    for _, sent_ns, prompt, output, _, _, token_ns, spans, _ in result:
        ((first, last),) = spans
        if not 0 < output <= last - first + 1 < output + _MAX_PARTS:
            raise QueryError(f"{name}: the number of steps of a request does not match its tokens")
        answered.append(range(last - output + 1, last + 1))
        new[first].append(sent_ns)
        for step in range(first, answered[-1][0] + 1):
            readers[step].append(len(answered) - 1)
        for more, step in enumerate(answered[-1][1:], 1):
            decodes[step] += 1
            context[step] += prompt + more
        for step, at in zip(answered[-1], token_ns, strict=True):
            end_ns[step] = max(at, end_ns.get(step, 0))
    so_far = [0] * len(result)
    timed: list[Timed] = []
    works: list[Work] = []
    begin_ns = ended_ns = 0
    # Delays of other requests after the first one to an idle engine: in its step, in the next.
    joined: list[int] = []
    missed: list[int] = []
    for step in sorted({*decodes, *readers}):
        read = 0
        for place in readers[step]:
            remaining = result[place][2] - so_far[place]
            if step not in answered[place]:
                if tokens is None:
                    raise QueryError(f"{name}: prompts were prefilled in chunks of unknown size")
                remaining = min(remaining - 1, tokens - decodes[step] - read)
            if remaining <= 0:
                raise QueryError(f"{name}: prompts were not prefilled in order")
            so_far[place] += remaining
            read += remaining
            context[step] += so_far[place]
        if not works:
            is_idle = len(new[step]) == len(readers[step]) > 0 == decodes[step]
            begin_ns = max(ended_ns, min(new[step])) if is_idle else ended_ns
            if is_idle:
                joined += [sent_ns - begin_ns for sent_ns in new[step]]
                missed += [sent_ns - begin_ns for sent_ns in new[step + 1] if sent_ns > begin_ns]
        works.append(Work(read, decodes[step], context[step]))
        if step in end_ns:
            ended_ns = end_ns[step]
            timed.append(Timed(tuple(works), ended_ns - begin_ns))
            works = []
    return timed, min([max([0, *joined]), *missed])
