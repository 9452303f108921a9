-- Of which pieces is each gap of a device made, and what was the host in during each?
-- A gap whose launch came late is cut where the host left one context and entered another: at the end of the outermost
-- span around the previous launch of the device that does not hold the next one, at the start of the outermost span
-- around the next launch that does not hold the previous one, at the borders of ranges and autograd nodes between the
-- two, of steps, and of stretches of at least unrecorded_limit_ns (macro idle_limits) in which no thread of the process
-- has an op, call or Python function. A piece before the first border has the phase and module of the previous work, one
-- behind the second those of the next. What lies between has the phase of the range or node that is open. Where none is,
-- phase other: where the two have different phases or steps and the stretch is as long as that limit, and where nothing
-- is recorded and the phase of one of the two is inferred; it is nobody's. Else it leads to the next work, and has its
-- phase. A gap whose launch was in time is one piece, which is the next work's.
--
-- Kind:     table
-- Access:   private
-- Columns:
--   trace_id         INTEGER -> trace          the trace
--   gap_id           BIGINT -> device_gaps     the gap
--   start_ns         BIGINT                    start of the piece, ns
--   end_ns           BIGINT                    its end, ns
--   is_late          BOOLEAN                   the launch call of the next work returned in the second half of the gap, or later
--   host_ns          BIGINT                    part of the piece that had passed when that call returned, ns; NULL without a launch
--   is_unrecorded    BOOLEAN                   no thread of the process has an op, call or Python function in it
--   step             BIGINT                    number of the step whose range holds its start; of a gap whose launch was in time, that of the next work
--   phase            VARCHAR                   phase
--   module_id        INTEGER -> module         module
--   row_name         VARCHAR                   row of modules where there is none
--   launch_id        BIGINT -> event.event_id  the call that launched the next work
--   launch_delay_ns  BIGINT                    from the end of that call to the start of the work, ns
--   link             VARCHAR                   of the next work, as in table attribution
--   op_id            BIGINT -> record.event_id  op around the launch whose context it has; NULL between the two
--   pid              BIGINT                    process of the launching thread
--   tid              BIGINT                    the launching thread
--   call_ns          BIGINT                    start of the launch call; on cpu, start of the work, ns
--   returned_ns      BIGINT                    end of the launch call; on cpu, start of the work, ns
--   is_graph         BOOLEAN                   that call launches a graph
-- Invariant: end_ns > start_ns AND (host_ns IS NULL OR 0 <= host_ns AND host_ns <= end_ns - start_ns)
-- Invariant: (module_id IS NULL) <> (row_name IS NULL)

-- On cpu an op launches its pieces, each when it starts.
WITH gap AS (
    SELECT
        g.rowid AS id, g.trace_id, g.gap_id, g.device, g.start_ns, g.end_ns,
        a.launch_id, a.launch_delay_ns, a.link, a.op_id, a.phase, a.module_id, a.row_name, a.step,
        a.is_inferred, c.pid, c.tid,
        c.ts_ns AS launch_ts_ns,
        coalesce(c.name LIKE '%Graph%', FALSE) AS is_graph,
        if(a.link = 'cpu', g.end_ns, c.ts_ns) AS call_ns,
        if(a.link = 'cpu', g.end_ns, c.end_ns) AS returned_ns,
        CASE
            WHEN returned_ns IS NOT NULL
                THEN greatest(least(returned_ns, g.end_ns) - g.start_ns, 0)
        END AS host_ns,
        coalesce(host_ns > 0 AND host_ns * 2 >= g.end_ns - g.start_ns, FALSE) AS is_late
    FROM device_gaps AS g
    LEFT JOIN attribution AS a
        ON
            g.trace_id = a.trace_id AND g.next_event_id = a.event_id AND g.next_piece = a.piece
    LEFT JOIN launch AS c ON a.trace_id = c.trace_id AND a.launch_id = c.launch_id
),

-- The launches of each device in the order of the host, each with the context of the last work that it put there.
launched AS (
    SELECT
        d.trace_id, d.device, a.launch_id,
        arg_max(
            {
                phase: a.phase, module_id: a.module_id, row_name: a.row_name, op_id: a.op_id,
                step: a.step, is_inferred: a.is_inferred
            }, d.ts_ns
        ) AS context
    FROM device_events AS d
    INNER JOIN attribution AS a USING (trace_id, event_id, piece)
    WHERE a.launch_id IS NOT NULL
    GROUP BY ALL
),

ordered AS (
    SELECT
        l.trace_id, l.device, l.launch_id,
        lag(l.launch_id) OVER (
            PARTITION BY l.trace_id, l.device ORDER BY c.ts_ns, l.launch_id
        ) AS previous_id
    FROM launched AS l
    INNER JOIN launch AS c USING (trace_id, launch_id)
),

followed AS (
    SELECT
        o.trace_id, o.device, o.launch_id,
        {ts_ns: c.ts_ns, pid: c.pid, tid: c.tid, context: l.context} AS previous
    FROM ordered AS o
    INNER JOIN launched AS l
        ON o.trace_id = l.trace_id AND o.device = l.device AND o.previous_id = l.launch_id
    INNER JOIN launch AS c ON o.trace_id = c.trace_id AND o.previous_id = c.launch_id
),

-- Gaps whose launch came late, and whether the host was in something else for the launch before.
late AS MATERIALIZED (
    SELECT
        g.id, g.trace_id, g.device, g.pid, g.start_ns, g.call_ns, f.previous,
        g.start_ns + g.host_ns AS host_end_ns,
        (
            f.previous.context.phase <> g.phase
            OR f.previous.context.step IS DISTINCT FROM g.step
        ) AS is_crossing,
        g.host_ns >= unrecorded_limit_ns() AS is_long,
        (f.previous.context.is_inferred OR g.is_inferred) AND is_long AS is_unsure,
        -- A launch call that was running when the gap began had left all else.
        f.previous IS NOT NULL AND g.launch_ts_ns > g.start_ns AND (
            is_crossing
            OR is_unsure
            OR f.previous.context.module_id IS DISTINCT FROM g.module_id
            OR f.previous.context.row_name IS DISTINCT FROM g.row_name
        ) AS has_borders,
        own.rowid AS thread,
        before.rowid AS previous_thread
    FROM gap AS g
    LEFT JOIN followed AS f USING (trace_id, device, launch_id)
    LEFT JOIN thread AS own USING (trace_id, pid, tid)
    LEFT JOIN thread AS before
        ON
            f.trace_id = before.trace_id
            AND f.previous.pid = before.pid
            AND f.previous.tid = before.tid
    WHERE g.is_late
),

bordered AS MATERIALIZED (SELECT * FROM late WHERE has_borders),

bordered_device AS (SELECT DISTINCT trace_id, device FROM bordered),

-- Of all events those that can cut one of these gaps.
late_range AS (
    SELECT
        trace_id,
        if(has_borders, least(previous.ts_ns, start_ns), start_ns) AS start_ns,
        greatest(call_ns, host_end_ns) AS end_ns
    FROM late
    WHERE has_borders OR is_long
),

near_event AS MATERIALIZED (
    SELECT trace_id, event_id, pid, tid, category, name, ts_ns, dur_ns, forward_thread
    FROM events_near('late_range')
),

-- Each device has its own borders.
host_span AS MATERIALIZED (
    SELECT
        t.rowid AS thread, t.trace_id, d.device, t.pid, e.event_id,
        e.ts_ns AS start_ns,
        e.ts_ns + e.dur_ns AS end_ns,
        coalesce(m.phase, if(m.means = 'node' OR e.forward_thread > 0, 'backward', NULL)) AS phase,
        m.row_name
    FROM near_event AS e
    INNER JOIN range_marker AS m ON e.category = m.category AND e.name = m.name
    INNER JOIN bordered_device AS d USING (trace_id)
    INNER JOIN thread AS t USING (trace_id, pid, tid)
    WHERE e.dur_ns > 0
),

-- When the host left what it was in for the previous launch.
left_at AS (
    SELECT c.id, max(s.end_ns) AS at_ns
    FROM host_span AS s
    ASOF INNER JOIN bordered AS c
        ON
            s.device = c.device
            AND s.thread = c.previous_thread
            AND s.end_ns >= c.previous.ts_ns
    WHERE s.start_ns <= c.previous.ts_ns AND s.end_ns <= c.call_ns
    GROUP BY c.id
),

-- And when it entered what it was in for the next one.
entered_at AS (
    SELECT c.id, min(s.start_ns) AS at_ns
    FROM host_span AS s
    ASOF INNER JOIN bordered AS c
        ON s.device = c.device AND s.thread = c.thread AND s.start_ns <= c.call_ns
    WHERE s.end_ns >= c.call_ns AND s.start_ns >= c.previous.ts_ns
    GROUP BY c.id
),

bounded AS (
    SELECT
        c.*,
        greatest(coalesce(l.at_ns, 0), c.start_ns) AS left_ns,
        greatest(coalesce(e.at_ns, c.call_ns), left_ns) AS entered_ns
    FROM bordered AS c
    LEFT JOIN left_at AS l USING (id)
    LEFT JOIN entered_at AS e USING (id)
),

-- What lies between the two, where that is more than the way from one module to the next.
between AS MATERIALIZED (
    SELECT
        id, (trace_id, device, pid) AS part, left_ns AS start_ns,
        least(entered_ns, host_end_ns) AS end_ns,
        end_ns < host_end_ns AS is_followed,
        is_crossing
    FROM bounded
    WHERE (is_crossing OR is_unsure) AND left_ns < least(entered_ns, host_end_ns)
),

phase_span AS MATERIALIZED (
    SELECT (trace_id, device, pid) AS part, event_id AS id, start_ns, end_ns, phase, row_name
    FROM host_span
    WHERE phase IS NOT NULL AND EXISTS (FROM between)
    UNION ALL
    -- While a thread waits for the nodes of a backward pass, the host is in that, between two nodes too.
    SELECT
        (trace_id, device, pid) AS part, -row_number() OVER () AS id, start_ns, end_ns,
        'backward' AS phase,
        NULL AS row_name
    FROM thread_waits
    INNER JOIN bordered_device USING (trace_id)
    WHERE is_backward AND EXISTS (FROM between)
),

span_end AS (
    SELECT part, unnest([start_ns, end_ns]) AS at_ns
    FROM phase_span
),

-- Where phases begin and end in there.
phase_border AS (
    SELECT b.id, s.at_ns
    FROM span_end AS s
    ASOF INNER JOIN between AS b ON s.part = b.part AND s.at_ns > b.start_ns
    WHERE s.at_ns < b.end_ns
    UNION
    SELECT id, start_ns AS at_ns
    FROM between
),

-- Its rows are numbered once.
phase_moment AS MATERIALIZED (
    SELECT p.at_ns, b.id AS gap, b.part, row_number() OVER () AS id
    FROM phase_border AS p
    INNER JOIN between AS b USING (id)
),

open_phase AS MATERIALIZED (
    SELECT
        p.gap AS id, p.part[1] AS trace_id, p.part[2] AS device, p.at_ns, s.phase,
        coalesce(s.row_name, '(unattributed)') AS row_name
    FROM phase_moment AS p
    LEFT JOIN interval_innermost('phase_moment', 'phase_span') AS i USING (id)
    LEFT JOIN phase_span AS s ON p.part = s.part AND i.span_id = s.id
),

-- Long gaps alone can hold a long stretch in which nothing is recorded.
long_late AS MATERIALIZED (
    SELECT id, (trace_id, pid) AS part, start_ns, host_end_ns AS end_ns
    FROM late
    WHERE is_long
),

late_process AS (SELECT DISTINCT part FROM long_late),

activity AS (
    SELECT (trace_id, pid) AS part, ts_ns AS start_ns, ts_ns + dur_ns AS end_ns, 0 AS id
    FROM near_event
    WHERE
        (is_op(category) OR is_launch_call(category) OR is_python_call(category))
        AND EXISTS (FROM long_late)
    UNION ALL
    SELECT (trace_id, pid), ts_ns, ts_ns + dur_ns, 0
    FROM host_waits
    WHERE EXISTS (FROM long_late)
    UNION ALL
    -- Up to its ends a gap is looked at.
    SELECT part, start_ns AS at_ns, start_ns, 0
    FROM long_late
    UNION ALL
    SELECT part, end_ns AS at_ns, end_ns, 0
    FROM long_late
    UNION ALL
    -- What the profiler does holds up every process of the trace.
    SELECT g.part, e.ts_ns, e.ts_ns + e.dur_ns, 0
    FROM event AS e
    INNER JOIN late_process AS g ON e.trace_id = g.part[1]
    WHERE e.category = 'overhead'
),

silence AS MATERIALIZED (
    SELECT part, start_ns, end_ns, row_number() OVER () AS id
    FROM interval_gaps('activity')
    WHERE end_ns - start_ns >= unrecorded_limit_ns()
),

unrecorded AS MATERIALIZED (
    SELECT
        g.id,
        common_start_ns(g.start_ns, g.end_ns, s.start_ns, s.end_ns) AS start_ns,
        common_end_ns(g.start_ns, g.end_ns, s.start_ns, s.end_ns) AS end_ns
    FROM interval_crossings('long_late', 'silence') AS c
    INNER JOIN long_late AS g ON c.left_id = g.id
    INNER JOIN silence AS s ON c.right_id = s.id
    WHERE common_ns(g.start_ns, g.end_ns, s.start_ns, s.end_ns) >= unrecorded_limit_ns()
),

late_device AS (SELECT DISTINCT trace_id, device FROM late),

step_border AS (
    SELECT l.id, s.ts_ns AS at_ns
    FROM step_ranges AS s
    INNER JOIN late_device AS d USING (trace_id)
    ASOF INNER JOIN late AS l
        ON s.trace_id = l.trace_id AND d.device = l.device AND s.ts_ns > l.start_ns
    WHERE s.ts_ns < l.host_end_ns
),

border AS MATERIALIZED (
    SELECT id, left_ns AS at_ns
    FROM bounded
    WHERE start_ns < left_ns AND left_ns < host_end_ns
    UNION
    SELECT id, at_ns
    FROM open_phase
    UNION
    SELECT id, end_ns
    FROM between
    WHERE is_followed
    UNION
    SELECT id, unnest([start_ns, end_ns])
    FROM unrecorded
    UNION
    SELECT id, at_ns
    FROM step_border
),

cut AS (
    FROM border
    UNION
    SELECT id, start_ns
    FROM late
),

-- Gaps of a device follow each other: to look among all of its pieces is quicker than gap by gap.
piece AS (
    SELECT
        c.id, g.trace_id, g.device,
        c.at_ns AS start_ns,
        least(next_start_ns((g.trace_id, g.device), c.at_ns, c.id), g.end_ns) AS end_ns
    FROM cut AS c
    INNER JOIN gap AS g USING (id)
    WHERE c.at_ns < g.end_ns
),

late_piece AS (
    SELECT
        p.id, p.start_ns, p.end_ns,
        coalesce(p.start_ns < u.end_ns, FALSE) AS is_unrecorded,
        CASE
            WHEN p.start_ns < b.left_ns
                THEN {
                    phase: b.previous.context.phase, module_id: b.previous.context.module_id,
                    row_name: b.previous.context.row_name, op_id: b.previous.context.op_id
                }
            WHEN p.start_ns < m.end_ns AND o.id = p.id AND o.phase IS NOT NULL
                THEN {phase: o.phase, module_id: NULL, row_name: o.row_name, op_id: NULL}
            WHEN
                p.start_ns < m.end_ns
                AND (
                    is_unrecorded
                    OR (m.is_crossing AND m.end_ns - m.start_ns >= unrecorded_limit_ns())
                )
                THEN {phase: 'other', module_id: NULL, row_name: '(unattributed)', op_id: NULL}
            ELSE {
                phase: g.phase, module_id: g.module_id, row_name: g.row_name, op_id: g.op_id
            }
        END AS context,
        if(p.start_ns < s.end_ns, s.step, NULL) AS step
    FROM piece AS p
    INNER JOIN gap AS g USING (id)
    LEFT JOIN bounded AS b USING (id)
    LEFT JOIN between AS m USING (id)
    ASOF LEFT JOIN open_phase AS o
        ON p.trace_id = o.trace_id AND p.device = o.device AND p.start_ns >= o.at_ns
    ASOF LEFT JOIN unrecorded AS u ON p.id = u.id AND p.start_ns >= u.start_ns
    ASOF LEFT JOIN step_ranges AS s ON p.trace_id = s.trace_id AND p.start_ns >= s.ts_ns
),

placed AS (
    FROM late_piece
    UNION ALL
    SELECT
        id, start_ns, end_ns,
        FALSE AS is_unrecorded,
        {phase: phase, module_id: module_id, row_name: row_name, op_id: op_id} AS context,
        step
    FROM gap
    WHERE NOT is_late
)

SELECT
    g.trace_id, g.gap_id, p.start_ns, p.end_ns, g.is_late,
    CASE
        WHEN g.host_ns IS NOT NULL THEN least(g.start_ns + g.host_ns, p.end_ns) - p.start_ns
    END AS host_ns,
    p.is_unrecorded, p.step, p.context.phase, p.context.module_id, p.context.row_name,
    g.launch_id, g.launch_delay_ns, g.link, p.context.op_id, g.pid, g.tid, g.call_ns,
    g.returned_ns, g.is_graph
FROM placed AS p
INNER JOIN gap AS g USING (id)
ORDER BY g.trace_id, g.gap_id, p.start_ns
