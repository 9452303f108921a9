"""The requests of serving, the steps that served them, and where their rows lead."""

from __future__ import annotations

from tracekit.browse.events import events_of
from tracekit.browse.page import AnalysisView, Asked, Row, SqlView, View, literal_of

_STEPS = """SELECT
    s.step, s.phase, s.dur_ns, s.ts_ns - t.first_ts_ns AS start_ns, s.prefill_token_count,
    s.decode_token_count, s.request_count, t.rank, s.trace_id
FROM request_step AS r
INNER JOIN run AS n ON r.run_id = n.run_id
INNER JOIN trace AS t ON r.run_id = t.run_id
INNER JOIN serving_step_ranges AS s
    ON t.trace_id = s.trace_id AND s.step BETWEEN r.first_step AND r.last_step
WHERE n.folder_name = {run} AND r.request_id = {request_id}"""

_OF_STEP = """(e.event_id, e.piece) IN (
    SELECT (d.event_id, d.piece)
    FROM attributed_events AS d
    LEFT JOIN launch AS l ON d.trace_id = l.trace_id AND d.launch_id = l.launch_id
    INNER JOIN serving_step_ranges AS s
        ON d.trace_id = s.trace_id
        AND coalesce(l.ts_ns, d.ts_ns) >= s.ts_ns
        AND coalesce(l.ts_ns, d.ts_ns) < s.end_ns
    WHERE s.trace_id = {trace_id} AND s.step = {step}
)"""


def requests() -> View:
    """Return every request, those that took longest first."""
    return AnalysisView(
        "Requests of serving, those that took longest first",
        Asked("requests", {"limit": 0, "kind": "all"}),
        (
            *("e2e_ns", "ttft_ns", "tpot_ns", "max_itl_ns", "request_id", "outcome", "step_count"),
            *("prompt_token_count", "output_token_count", "sent_ns", "run", "reason"),
        ),
        lead=steps_of_request,
    )


def steps_of_request(row: Row) -> View:
    """Return the steps in the trace that served a request."""
    values = {"run": literal_of(row["run"]), "request_id": int(row["request_id"])}
    return SqlView(
        f"Steps that served request {row['request_id']}",
        _STEPS.format(**values),
        "step, trace_id",
        (
            *("step", "phase", "dur_ns", "start_ns", "prefill_token_count", "decode_token_count"),
            *("request_count", "rank"),
        ),
        ("phase",),
        _events_of_step,
    )


def _events_of_step(row: Row) -> View:
    of_step = _OF_STEP.format(trace_id=int(row["trace_id"]), step=int(row["step"]))
    conditions = [f"e.trace_id = {int(row['trace_id'])}", of_step]
    return events_of(f"Events: {row['phase']} step {row['step']}", conditions)
