-- Forward and backward passes of torch.compile regions, with their graph number.
-- The names of Dynamo regions contain the graph number (frame/entry). A forward pass belongs to the region around it. A
-- backward pass belongs to the region of the forward pass with the same sequence number.
--
-- Kind:     table
-- Input:    event WHERE starts_with(name, 'Torch-Compiled Region') OR name IN ('CompiledFunction',
--           'CompiledFunctionBackward')
-- Columns:
--   trace_id   INTEGER -> trace
--   region_id  BIGINT -> event.event_id  span of the region
--   pid BIGINT, tid BIGINT -> thread(pid, tid), start_ns BIGINT, end_ns BIGINT
--   pass       VARCHAR                   forward or backward
--   graph      VARCHAR                   graph number (frame/entry); NULL if unknown

WITH span AS (
    SELECT
        trace_id, event_id, pid, tid,
        trace_id || '/' || pid || '/' || tid AS part,
        sequence_number, ts_ns,
        ts_ns + dur_ns AS end_ns,
        starts_with(name, 'Torch-Compiled Region') AS is_region,
        name = 'CompiledFunctionBackward' AS is_backward,
        nullif(regexp_extract(name, '^Torch-Compiled Region: ([0-9]+/[0-9]+)', 1), '') AS graph
    FROM event
    WHERE
        (
            starts_with(name, 'Torch-Compiled Region')
            OR name IN ('CompiledFunction', 'CompiledFunctionBackward')
        )
        AND (is_op(category) OR is_annotation(category))
),

region AS (
    SELECT part, event_id AS id, ts_ns AS start_ns, end_ns
    FROM span
    WHERE is_region
),

-- Event IDs are unique only within a trace, so number the passes.
pass_start AS (
    SELECT part, row_number() OVER () AS id, trace_id, event_id, ts_ns AS at_ns
    FROM span
    WHERE NOT is_region AND NOT is_backward
),

surrounded AS (
    SELECT pass_start.trace_id, pass_start.event_id, around.span_id AS around_id
    FROM interval_innermost('pass_start', 'region') AS around
    INNER JOIN pass_start USING (id)
),

forward AS (
    SELECT s.trace_id, s.event_id, s.pid, s.sequence_number, s.ts_ns, r.graph
    FROM span AS s
    INNER JOIN surrounded AS a USING (trace_id, event_id)
    INNER JOIN span AS r ON a.trace_id = r.trace_id AND a.around_id = r.event_id
),

-- Sequence numbers recur, so use the last forward pass before the backward pass.
backward AS (
    SELECT s.trace_id, s.event_id, f.graph
    FROM span AS s
    ASOF INNER JOIN forward AS f
        ON
            s.trace_id = f.trace_id
            AND s.pid = f.pid
            AND s.sequence_number = f.sequence_number
            AND s.ts_ns >= f.ts_ns
    WHERE s.is_backward
)

SELECT
    s.trace_id, s.event_id AS region_id, s.pid, s.tid, s.ts_ns AS start_ns, s.end_ns,
    if(s.is_backward, 'backward', 'forward') AS pass,
    coalesce(s.graph, f.graph, b.graph) AS graph
FROM span AS s
LEFT JOIN forward AS f USING (trace_id, event_id)
LEFT JOIN backward AS b USING (trace_id, event_id)
