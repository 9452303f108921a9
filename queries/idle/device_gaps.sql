-- When did each device have nothing to do, and what ran before and after?
-- A row is a gap of the device's merged timeline: no stream runs anything. Gaps add up to its window minus its busy
-- time. Table idle_gap says why.
--
-- Kind:     table
-- Access:   private
-- Columns:
--   trace_id           INTEGER -> trace                  the trace
--   gap_id             BIGINT                            number of the gap in the trace, from 1
--   device             VARCHAR -> device_windows         number of the device, or cpu
--   start_ns           BIGINT                            end of the previous work, ns
--   end_ns             BIGINT                            start of the next work, ns
--   previous_event_id  BIGINT -> device_events.event_id  the device event that ended last before the gap
--   previous_kind      VARCHAR                           its kind, as in table device_events
--   previous_class     VARCHAR                           its class
--   next_event_id      BIGINT -> device_events.event_id  the device event that ended the gap
--   next_piece         BIGINT                            its piece, as in table device_events
--   is_other_stream    BOOLEAN                           the two ran on different streams
--   is_stream_idle     BOOLEAN                           the stream of the next work was idle before the device was
--   is_inside_launch   BOOLEAN                           the call that launched the next work had put other work there before the gap
-- Invariant: end_ns > start_ns
-- Note: where it is compiled, native/gaps.c makes these rows: a change of this SQL is made there too

WITH swept AS (
    SELECT
        trace_id, device, event_id, piece, stream, kind, class, correlation, ts_ns, end_ns
    FROM device_events
),

work AS MATERIALIZED (
    SELECT
        *,
        ts_ns AS start_ns,
        trace_id || '/' || device AS part,
        row_number() OVER () AS id,
        latest_end_before_ns(
            (trace_id, device, stream), ts_ns, end_ns, (end_ns, correlation, event_id)
        ) AS stream_end_ns
    FROM swept
),

-- Calls that put more than one piece of work there, such as those that replay a graph.
launched AS (
    SELECT part, correlation, min(start_ns) AS first_ns
    FROM work
    WHERE correlation > 0
    GROUP BY part, correlation
    HAVING count(*) > 1
)

SELECT
    next_work.trace_id,
    row_number() OVER (
        PARTITION BY next_work.trace_id ORDER BY found.start_ns, next_work.device
    ) AS gap_id,
    next_work.device, found.start_ns, found.end_ns, last_work.event_id AS previous_event_id,
    last_work.kind AS previous_kind, last_work.class AS previous_class,
    next_work.event_id AS next_event_id, next_work.piece AS next_piece,
    coalesce(last_work.stream <> next_work.stream, FALSE) AS is_other_stream,
    coalesce(next_work.stream_end_ns < found.start_ns, TRUE) AS is_stream_idle,
    coalesce(launched.first_ns < found.start_ns, FALSE) AS is_inside_launch
FROM interval_gaps('work') AS found
INNER JOIN work AS next_work ON found.next_id = next_work.id
INNER JOIN work AS last_work ON found.previous_id = last_work.id
LEFT JOIN launched
    ON next_work.part = launched.part AND next_work.correlation = launched.correlation
ORDER BY next_work.trace_id, gap_id
