-- Busy and idle time of each step in detail, for `tracekit compare`.
-- Busy time is grouped by class, phase, module, op with shape, and name. Idle time is grouped by cause, phase, module,
-- and the op that kept the CPU busy. Work and gaps are split at the start of each step on the device. wall_ns therefore
-- adds up to the length of each step and to the window. Idle time before the first work or after the last work of the
-- device has the cause before_first_work or behind_last_work.
--
-- Kind:     analysis
-- Scope:    trace
-- Columns:
--   rank INTEGER, device VARCHAR
--   step          BIGINT   step number; NULL outside steps, or if none are marked
--   part          VARCHAR  compute, exposed_comm, exposed_memcpy, or idle
--   class         VARCHAR  kernel class; for idle time, the cause
--   phase         VARCHAR
--   module_path   VARCHAR  module path with layer numbers replaced by *, or a row such as (optimizer) for work outside modules
--   op            VARCHAR  innermost op around the launch; for idle time, the op that kept the CPU busy
--   shape         VARCHAR  argument shapes of the op, or else grid of the kernel; for collectives, the message size
--   name          VARCHAR  kernel, copy, or op; NULL for idle time
--   kernel_count  BIGINT   number of device events that start in this step, or of gaps
--   kernel_ns     BIGINT   sum of durations within the step, ns
--   wall_ns       BIGINT
-- Keep:     rank, step, part, class, phase, module_path, kernel_count, wall_ns
-- Invariant: 0 <= wall_ns AND wall_ns <= kernel_ns AND kernel_count >= 0
-- Invariant: (part = 'idle') = (name IS NULL) AND (part <> 'idle' OR wall_ns = kernel_ns)

WITH step_span AS (
    SELECT trace_id, device, step, start_ns, start_ns + span_ns AS end_ns
    FROM device_steps
    WHERE span_ns > 0
),

step_end AS (
    SELECT trace_id, device, min(start_ns) AS first_ns, max(end_ns) AS last_ns
    FROM step_span
    GROUP BY trace_id, device
),

-- Intervals that tile the time of each device: the steps, and the times before, between, and after.
tile AS (
    SELECT * FROM step_span
    UNION ALL
    SELECT
        b.trace_id, b.device, NULL AS step, b.end_ns AS start_ns,
        next_start_ns((b.trace_id, b.device), b.start_ns, b.step) AS next_ns
    FROM step_span AS b
    QUALIFY b.end_ns < next_ns
    UNION ALL
    SELECT
        w.trace_id, w.device, NULL AS step,
        w.start_ns - 1 AS start_ns,
        coalesce(s.first_ns, w.end_ns + 1) AS end_ns
    FROM device_windows AS w
    LEFT JOIN step_end AS s ON w.trace_id = s.trace_id AND w.device = s.device
    UNION ALL
    SELECT w.trace_id, w.device, NULL AS step, s.last_ns AS start_ns, w.end_ns + 1 AS end_ns
    FROM device_windows AS w
    INNER JOIN step_end AS s ON w.trace_id = s.trace_id AND w.device = s.device
    WHERE s.last_ns <= w.end_ns
),

section AS MATERIALIZED (
    SELECT *, row_number() OVER () AS id, (trace_id, device) AS part
    FROM tile
),

op_shape AS (
    SELECT e.trace_id, e.event_id, e.name, e.args ->> '$."Input Dims"' AS shape
    FROM record AS e
    WHERE is_op(e.category)
),

work AS MATERIALIZED (
    SELECT
        d.trace_id, d.device, d.event_id, d.piece, d.kind,
        coalesce(c.class, d.class) AS class,
        a.phase, a.module_id, a.row_name, a.op_id, a.op_name, d.name, d.ts_ns, d.end_ns, d.dur_ns,
        d.wall_ns,
        d.end_ns - d.kind_wall_ns AS own_ns,
        c.message_bytes, s.step, s.end_ns AS section_end_ns,
        row_number() OVER () AS id
    FROM device_events AS d
    INNER JOIN attribution AS a
        ON d.trace_id = a.trace_id AND d.event_id = a.event_id AND d.piece = a.piece
    LEFT JOIN collective_events AS c
        ON d.trace_id = c.trace_id AND d.event_id = c.event_id AND d.piece = c.piece
    ASOF INNER JOIN section AS s
        ON d.trace_id = s.trace_id AND d.device = s.device AND d.ts_ns >= s.start_ns
),

long_work AS (
    SELECT id, (trace_id, device) AS part, ts_ns AS start_ns, end_ns
    FROM work
    WHERE end_ns > section_end_ns
),

work_piece AS MATERIALIZED (
    SELECT
        w.id AS work_id, w.kind,
        w.trace_id || '/' || w.device AS part,
        s.step,
        w.ts_ns >= s.start_ns AS is_begin,
        common_ns(w.ts_ns, w.end_ns, s.start_ns, s.end_ns) AS dur_ns,
        common_start_ns(w.own_ns, w.end_ns, s.start_ns, s.end_ns) AS start_ns,
        common_end_ns(w.own_ns, w.end_ns, s.start_ns, s.end_ns) AS end_ns,
        row_number() OVER () AS id
    FROM interval_crossings('long_work', 'section') AS c
    INNER JOIN work AS w ON c.left_id = w.id
    INNER JOIN section AS s ON c.right_id = s.id
),

comm_piece AS (SELECT * FROM work_piece WHERE kind = 'comm' AND start_ns < end_ns),

copy_piece AS (SELECT * FROM work_piece WHERE kind = 'memcpy' AND start_ns < end_ns),

compute_cover AS (
    SELECT trace_id || '/' || device AS part, own_ns AS start_ns, end_ns
    FROM work
    WHERE kind = 'compute' AND own_ns < end_ns AND EXISTS (FROM comm_piece)
),

work_cover AS (
    SELECT trace_id || '/' || device AS part, own_ns AS start_ns, end_ns
    FROM work
    WHERE kind <> 'memcpy' AND own_ns < end_ns AND EXISTS (FROM copy_piece)
),

hidden AS (
    SELECT * FROM interval_overlap('comm_piece', 'compute_cover')
    UNION ALL
    SELECT * FROM interval_overlap('copy_piece', 'work_cover')
),

stepped AS (
    SELECT
        id AS work_id, step,
        (piece = 0)::BIGINT AS kernel_count,
        dur_ns, wall_ns
    FROM work
    WHERE end_ns <= section_end_ns
    UNION ALL
    SELECT
        work_piece.work_id, work_piece.step,
        (work_piece.is_begin AND work.piece = 0)::BIGINT AS kernel_count,
        work_piece.dur_ns,
        work_piece.end_ns - work_piece.start_ns - coalesce(hidden.overlap_ns, 0) AS wall_ns
    FROM work_piece
    INNER JOIN work ON work_piece.work_id = work.id
    LEFT JOIN hidden ON work_piece.id = hidden.id
),

busy AS (
    SELECT
        w.trace_id, w.device, p.step,
        time_part(w.kind) AS part,
        w.class, w.phase, w.module_id, w.row_name, w.op_name AS op, CASE
            WHEN w.message_bytes IS NOT NULL THEN w.message_bytes || ' bytes'
            ELSE coalesce(o.shape, k.args ->> '$.grid')
        END AS shape, w.name, p.kernel_count, p.dur_ns, p.wall_ns
    FROM stepped AS p
    INNER JOIN work AS w ON p.work_id = w.id
    LEFT JOIN op_shape AS o ON w.trace_id = o.trace_id AND w.op_id = o.event_id
    LEFT JOIN event AS k
        ON o.shape IS NULL AND w.trace_id = k.trace_id AND w.event_id = k.event_id
),

gap AS MATERIALIZED (
    SELECT *, row_number() OVER () AS id, (trace_id, device) AS part
    FROM idle_gap
),

idle AS (
    SELECT
        g.trace_id, g.device, s.step,
        'idle' AS part,
        g.cause AS class, g.phase, g.module_id,
        g.row_name,
        e.name AS op,
        (g.start_ns >= s.start_ns)::BIGINT AS kernel_count,
        common_ns(g.start_ns, g.end_ns, s.start_ns, s.end_ns) AS dur_ns,
        common_ns(g.start_ns, g.end_ns, s.start_ns, s.end_ns) AS wall_ns
    FROM interval_crossings('gap', 'section') AS c
    INNER JOIN gap AS g ON c.left_id = g.id
    INNER JOIN section AS s ON c.right_id = s.id
    LEFT JOIN event AS e ON g.trace_id = e.trace_id AND g.op_id = e.event_id
),

at_window AS (
    SELECT
        s.trace_id, s.device, s.step,
        unnest([
            {cause: 'before_first_work', idle_ns: w.start_ns - s.start_ns},
            {cause: 'behind_last_work', idle_ns: s.end_ns - w.end_ns}
        ]) AS piece
    FROM step_span AS s
    INNER JOIN device_windows AS w USING (trace_id, device)
),

outside_window AS (
    SELECT
        trace_id, device, step,
        'idle' AS part,
        piece.cause AS class,
        'other' AS phase,
        '(unattributed)' AS row_name,
        1::BIGINT AS kernel_count,
        piece.idle_ns AS dur_ns,
        piece.idle_ns AS wall_ns
    FROM at_window
    WHERE piece.idle_ns > 0
)

SELECT
    w.rank, w.device, x.step, x.part, x.class, x.phase,
    coalesce(m.rollup_path, x.row_name) AS module_path,
    x.op, x.shape, x.name,
    sum(x.kernel_count)::BIGINT AS kernel_count,
    sum(x.dur_ns)::BIGINT AS kernel_ns,
    sum(x.wall_ns)::BIGINT AS wall_ns
FROM (
    SELECT * FROM busy
    UNION ALL BY NAME
    SELECT * FROM idle
    UNION ALL BY NAME
    SELECT * FROM outside_window
) AS x
INNER JOIN device_windows AS w USING (trace_id, device)
LEFT JOIN module AS m USING (trace_id, module_id)
GROUP BY
    w.rank, w.trace_id, w.device, x.step, x.part, x.class, x.phase,
    coalesce(m.rollup_path, x.row_name), x.op, x.shape, x.name
ORDER BY
    w.rank NULLS LAST, w.trace_id, w.device, x.step NULLS LAST,
    wall_ns DESC, x.part, x.class, x.phase, module_path, x.op, x.shape, x.name
