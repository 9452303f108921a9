-- Launch and step of each device event.
-- Events are linked by correlation ID. If several calls share an ID, the last call before the event is its launch, or
-- else the nearest call. On cpu, each op is its own launch. Without a launch, the step comes from the op with the same
-- External id. Without such an op, it comes from the linked events before and after it on the stream, if their steps
-- are equal.
--
-- Kind:     table
-- Input:    device_events
-- Columns:
--   trace_id         INTEGER -> trace
--   event_id         BIGINT -> event        device event
--   piece BIGINT, launch_id BIGINT -> event.event_id
--   launch_ts_ns     BIGINT                 start of the launch, ns
--   launch_delay_ns  BIGINT                 time from the end of the launch to the start on the device, ns; negative if the work started earlier
--   link             VARCHAR
--   step             BIGINT -> step_ranges  step whose range on the host contains the launch
--   step_ts_ns       BIGINT                 start of the range of that step, ns
-- Invariant: (launch_id IS NULL) = (link IN ('before_window', 'missing_launch'))
-- Invariant: (launch_id IS NULL) = (launch_ts_ns IS NULL) AND (step IS NULL) = (step_ts_ns IS NULL)

WITH numbered_launch AS (
    SELECT
        *,
        count(*) OVER same AS same_count,
        row_number() OVER (same ORDER BY ts_ns, launch_id) AS place
    FROM launch
    WHERE correlation IS NOT NULL
    WINDOW same AS (PARTITION BY trace_id, correlation)
),

shared_launch AS (
    SELECT DISTINCT ON (trace_id, correlation, ts_ns)
        trace_id, correlation, ts_ns, end_ns, launch_id
    FROM numbered_launch
    WHERE same_count > 1
    ORDER BY trace_id, correlation, ts_ns, launch_id
),

-- Join only the first call of each ID, because several calls and many events may share an ID.
first_launch_pair AS (
    SELECT
        d.trace_id, d.event_id, d.piece, d.device, d.stream, d.ts_ns, d.correlation, l.launch_id,
        l.ts_ns AS launch_ts_ns, l.end_ns AS launch_end_ns, l.same_count
    FROM device_events AS d
    LEFT JOIN numbered_launch AS l
        ON d.trace_id = l.trace_id AND d.correlation = l.correlation AND l.place = 1
    WHERE d.device <> 'cpu'
),

-- If no call began before the device event, the first call is the nearest.
nearest_launch_pair AS (
    SELECT
        p.* EXCLUDE (same_count, launch_id, launch_ts_ns, launch_end_ns),
        coalesce(l.launch_id, p.launch_id) AS launch_id,
        coalesce(l.ts_ns, p.launch_ts_ns) AS launch_ts_ns,
        coalesce(l.end_ns, p.launch_end_ns) AS launch_end_ns
    FROM first_launch_pair AS p
    ASOF LEFT JOIN shared_launch AS l
        ON p.trace_id = l.trace_id AND p.correlation = l.correlation AND p.ts_ns >= l.ts_ns
    WHERE p.same_count > 1
),

launch_pair AS (
    SELECT * EXCLUDE (same_count)
    FROM first_launch_pair
    WHERE same_count IS NULL OR same_count = 1
    UNION ALL
    SELECT *
    FROM nearest_launch_pair
    UNION ALL
    SELECT
        d.trace_id, d.event_id, d.piece, d.device, d.stream, d.ts_ns, d.correlation,
        d.event_id AS launch_id,
        l.ts_ns AS launch_ts_ns, NULL AS launch_end_ns
    FROM device_events AS d
    INNER JOIN launch AS l ON d.trace_id = l.trace_id AND d.event_id = l.launch_id
    WHERE d.device = 'cpu'
),

first_call AS (
    SELECT trace_id, min(correlation) AS correlation
    FROM event
    WHERE is_launch_call(category) AND correlation > 0
    GROUP BY trace_id
),

by_external_id AS (
    SELECT c.trace_id, c.event_id, c.piece, min(o.ts_ns) AS ts_ns
    FROM launch_pair AS c
    INNER JOIN event AS e USING (trace_id, event_id)
    INNER JOIN event AS o ON e.trace_id = o.trace_id AND e.external_id = o.external_id
    WHERE c.launch_id IS NULL AND e.external_id > 0 AND is_op(o.category)
    GROUP BY c.trace_id, c.event_id, c.piece
),

in_step AS MATERIALIZED (
    SELECT
        c.*,
        coalesce(c.launch_ts_ns, o.ts_ns) AS begun_ns,
        CASE WHEN begun_ns < s.end_ns THEN s.step END AS step,
        CASE WHEN begun_ns < s.end_ns THEN s.ts_ns END AS step_ts_ns
    FROM launch_pair AS c
    LEFT JOIN by_external_id AS o USING (trace_id, event_id, piece)
    ASOF LEFT JOIN step_ranges AS s
        ON c.trace_id = s.trace_id AND coalesce(c.launch_ts_ns, o.ts_ns) >= s.ts_ns
),

unlinked_stream AS (
    SELECT DISTINCT trace_id, device, stream
    FROM in_step
    WHERE begun_ns IS NULL
),

-- Linked events outside steps have the number -1.
by_stream AS (
    SELECT
        trace_id, event_id, piece, begun_ns,
        CASE WHEN begun_ns IS NOT NULL THEN (coalesce(step, -1), coalesce(step_ts_ns, 0)) END
            AS own,
        any_value(own) OVER until_it AS before_it,
        any_value(own) OVER from_it AS behind_it
    FROM in_step
    SEMI JOIN unlinked_stream USING (trace_id, device, stream)
    WINDOW
        until_it AS (
            PARTITION BY trace_id, device, stream ORDER BY ts_ns DESC, event_id DESC, piece DESC
            ROWS BETWEEN CURRENT ROW AND UNBOUNDED FOLLOWING
        ),
        from_it AS (
            PARTITION BY trace_id, device, stream ORDER BY ts_ns, event_id, piece
            ROWS BETWEEN CURRENT ROW AND UNBOUNDED FOLLOWING
        )
),

enclosed AS (
    SELECT trace_id, event_id, piece, before_it[1] AS in_step, before_it[2] AS in_step_ts_ns
    FROM by_stream
    WHERE begun_ns IS NULL AND before_it = behind_it AND before_it[1] >= 0
)

SELECT
    c.trace_id, c.event_id, c.piece, c.launch_id, c.launch_ts_ns,
    c.ts_ns - c.launch_end_ns AS launch_delay_ns,
    CASE
        WHEN c.device = 'cpu' THEN 'cpu'
        WHEN c.launch_id IS NOT NULL THEN 'launch'
        WHEN c.correlation > 0 AND c.correlation < f.correlation THEN 'before_window'
        ELSE 'missing_launch'
    END AS link,
    coalesce(c.step, b.in_step) AS step,
    coalesce(c.step_ts_ns, b.in_step_ts_ns) AS step_ts_ns
FROM in_step AS c
LEFT JOIN first_call AS f USING (trace_id)
LEFT JOIN enclosed AS b USING (trace_id, event_id, piece)
ORDER BY c.trace_id, c.event_id, c.piece
