-- To which launch, op, module, phase and step does each device event belong?
-- One row for each row of device_events. Device events are linked to launches by correlation; of several calls with
-- one number, by the last that began before the device event, else by the nearest.
-- A phase that the launch's own context does not tell comes from the launches around it in a trace of training:
-- between forward and backward is the loss, and so on. A device event whose launch was before the window is placed by
-- repetition: it is what the event one step later on its stream is, if the names agree for nine tenths of such
-- events of the stream; else by its name, where that name ran in one phase only. All of this is marked is_inferred.
--
-- Kind:     table
-- Requires: event_category, device_events, launch, context, module, steps, accelerator
-- Columns:
--   trace_id         INTEGER  the trace
--   event_id         BIGINT   the device event
--   piece            BIGINT   number of the piece of a CPU op, from 0; 0 for work of accelerators
--   launch_id        BIGINT   the launch; NULL where it is not in the trace
--   launch_delay_ns  BIGINT   from the end of the launch to the start on the device, ns; negative if it began before
--   op_id            BIGINT   innermost op around the launch
--   op_name          VARCHAR  its name
--   module_id        INTEGER  module, as in table module; NULL where none
--   phase            VARCHAR  phase; other where unknown
--   row_name         VARCHAR  row of modules where there is no module; NULL where there is one
--   step             BIGINT   number of the step whose range on the CPU holds the launch
--   is_inferred      BOOLEAN  phase, module or row do not come from the launch's own context
--   link             VARCHAR  launch, before_window, missing_launch or cpu
-- Invariant: (module_id IS NULL) <> (row_name IS NULL)
-- Invariant: (launch_id IS NULL) = (link IN ('before_window', 'missing_launch'))

WITH numbered_launch AS (
    SELECT
        *,
        count(*) OVER (PARTITION BY trace_id, correlation) AS same_count
    FROM launch
    WHERE correlation IS NOT NULL
),

pair AS (
    SELECT
        d.trace_id,
        d.event_id,
        d.piece,
        d.device,
        d.stream,
        d.ts_ns,
        d.name,
        d.class,
        d.kind,
        d.correlation,
        l.launch_id,
        l.ts_ns AS launch_ts_ns,
        l.end_ns AS launch_end_ns,
        l.same_count
    FROM device_events AS d
    LEFT JOIN numbered_launch AS l ON d.trace_id = l.trace_id AND d.correlation = l.correlation
    WHERE d.device <> 'cpu'
),

nearest AS (
    SELECT * EXCLUDE (same_count)
    FROM pair
    WHERE same_count > 1
    QUALIFY row_number() OVER (
        PARTITION BY trace_id, event_id
        ORDER BY launch_ts_ns <= ts_ns DESC, abs(launch_ts_ns - ts_ns), launch_id
    ) = 1
),

candidate AS (
    SELECT * EXCLUDE (same_count)
    FROM pair
    WHERE same_count IS NULL OR same_count = 1
    UNION ALL
    SELECT *
    FROM nearest
    UNION ALL
    SELECT
        d.trace_id,
        d.event_id,
        d.piece,
        d.device,
        d.stream,
        d.ts_ns,
        d.name,
        d.class,
        d.kind,
        d.correlation,
        d.event_id AS launch_id,
        l.ts_ns AS launch_ts_ns,
        NULL AS launch_end_ns
    FROM device_events AS d
    INNER JOIN launch AS l ON d.trace_id = l.trace_id AND d.event_id = l.launch_id
    WHERE d.device = 'cpu'
),

first_call AS (
    SELECT
        trace_id,
        min(correlation) AS first_correlation
    FROM event
    WHERE is_launch_call(category) AND correlation > 0
    GROUP BY trace_id
),

fact AS (
    SELECT
        trace.trace_id,
        first_call.first_correlation,
        trace.trace_id IN (SELECT trace_id FROM context WHERE node_id IS NOT NULL) AS is_training,
        trace.trace_id IN (SELECT trace_id FROM context WHERE module_id IS NOT NULL) AS has_modules,
        trace.trace_id IN (SELECT trace_id FROM context WHERE phase IS NOT NULL) AS has_phases
    FROM trace
    LEFT JOIN first_call ON trace.trace_id = first_call.trace_id
),

seen AS (
    SELECT
        d.*,
        c.op_id,
        c.module_id,
        c.range_id,
        c.node_id,
        c.row_name,
        c.is_weak_row,
        c.phase,
        f.is_training,
        f.has_modules,
        f.has_phases,
        CASE
            WHEN d.device = 'cpu' THEN 'cpu'
            WHEN d.launch_id IS NOT NULL THEN 'launch'
            WHEN d.correlation > 0 AND d.correlation < f.first_correlation THEN 'before_window'
            ELSE 'missing_launch'
        END AS link,
        CASE WHEN d.launch_ts_ns < s.end_ns THEN s.step END AS step,
        CASE WHEN d.launch_ts_ns < s.end_ns THEN s.ts_ns END AS step_ts_ns
    FROM candidate AS d
    INNER JOIN fact AS f ON d.trace_id = f.trace_id
    LEFT JOIN context AS c ON d.trace_id = c.trace_id AND d.launch_id = c.event_id
    ASOF LEFT JOIN steps AS s ON d.trace_id = s.trace_id AND d.launch_ts_ns >= s.ts_ns
),

-- The phases of the nearest launches that have one, before and after: a running maximum of place and phase in one
-- number. It stays linear where long runs have none, as IGNORE NULLS does not.
phase_list AS (
    SELECT
        [
            'forward', 'backward', 'recompute', 'optimizer', 'data', 'prefill', 'decode', 'mixed'
        ] AS phases
),

ordered AS (
    SELECT
        seen.*,
        phase_list.phases,
        16 * row_number() OVER (
            PARTITION BY seen.trace_id
            ORDER BY seen.launch_ts_ns, seen.ts_ns, seen.event_id, seen.piece
        ) + list_position(phase_list.phases, seen.phase) AS place
    FROM seen
    CROSS JOIN phase_list
    WHERE seen.launch_id IS NOT NULL
),

around AS (
    SELECT
        * EXCLUDE (place, phases),
        list_extract(
            phases,
            max(place) OVER (launched ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) % 16
        ) AS phase_before,
        list_extract(
            phases,
            min(place) OVER (launched ROWS BETWEEN 1 FOLLOWING AND UNBOUNDED FOLLOWING) % 16
        ) AS phase_after
    FROM ordered
    WINDOW launched AS (PARTITION BY trace_id ORDER BY launch_ts_ns, ts_ns, event_id, piece)
    UNION ALL
    SELECT
        *,
        NULL AS phase_before,
        NULL AS phase_after
    FROM seen
    WHERE launch_id IS NULL
),

phased AS (
    SELECT
        * EXCLUDE (phase),
        phase AS own_phase,
        CASE
            WHEN phase IS NOT NULL THEN phase
            WHEN launch_id IS NULL THEN NULL
            WHEN
                NOT is_training
                AND NOT has_modules
                AND NOT has_phases
                AND range_id IS NULL
                AND kind = 'compute'
                THEN 'forward'
            WHEN NOT is_training THEN NULL
            WHEN
                class = 'memcpy_h2d'
                AND coalesce(phase_before, 'optimizer') IN ('optimizer', 'data')
                THEN 'data'
            WHEN phase_before = 'forward' AND phase_after IN ('forward', 'backward') THEN 'forward'
            WHEN phase_before = 'backward' AND phase_after = 'backward' THEN 'backward'
            WHEN
                phase_before = 'backward'
                AND coalesce(phase_after, 'forward') IN ('optimizer', 'forward')
                THEN 'optimizer'
            WHEN 'data' IN (phase_before, phase_after) AND phase_before IN ('optimizer', 'data')
                THEN 'data'
            WHEN phase_before IS NULL AND phase_after = 'forward' THEN 'forward'
            WHEN phase_before = 'optimizer' THEN 'optimizer'
            WHEN phase_before = 'recompute' THEN 'backward'
            ELSE coalesce(phase_before, phase_after)
        END AS phase
    FROM around
),

rowed AS (
    SELECT
        * EXCLUDE (module_id, row_name),
        CASE
            WHEN module_id IS NOT NULL THEN module_id
            WHEN row_name IS NOT NULL AND (has_modules OR NOT is_weak_row) THEN NULL
            WHEN
                has_modules AND is_training AND (node_id IS NOT NULL OR phase = 'forward')
                THEN NULL
            ELSE range_id
        END AS module_id,
        CASE
            WHEN kind = 'comm' AND row_name = '(gradient accumulation)' THEN '(communication)'
            WHEN row_name IS NOT NULL THEN row_name
            WHEN launch_id IS NULL THEN NULL
            WHEN kind = 'comm' THEN '(communication)'
            WHEN
                has_modules AND is_training AND (node_id IS NOT NULL OR phase = 'forward')
                THEN '(loss)'
            WHEN class = 'memcpy_h2d' THEN '(data loading)'
            WHEN phase = 'optimizer' THEN '(optimizer)'
        END AS row_name
    FROM phased
),

linked AS (
    SELECT
        * EXCLUDE (row_name),
        CASE WHEN module_id IS NULL THEN row_name END AS row_name,
        coalesce(phase IS DISTINCT FROM own_phase, FALSE) AS is_phase_inferred
    FROM rowed
),

-- Repetition is looked for only in traces that need it.
numbered AS (
    SELECT
        *,
        row_number() OVER (
            PARTITION BY trace_id, device, stream ORDER BY ts_ns, event_id
        ) AS position
    FROM linked
    WHERE trace_id IN (SELECT trace_id FROM rowed WHERE launch_id IS NULL)
),

unlinked AS (SELECT * FROM numbered WHERE launch_id IS NULL),

step_start AS (
    SELECT
        trace_id,
        device,
        stream,
        step_ts_ns,
        min(position) AS first_position
    FROM numbered
    WHERE step_ts_ns IS NOT NULL
    GROUP BY trace_id, device, stream, step_ts_ns
),

step_length AS (
    SELECT
        trace_id,
        device,
        stream,
        lead(first_position) OVER (
            PARTITION BY trace_id, device, stream ORDER BY first_position
        ) - first_position AS length
    FROM step_start
),

period AS (
    SELECT
        trace_id,
        device,
        stream,
        min(length) AS period
    FROM step_length
    WHERE length > 0
    GROUP BY trace_id, device, stream
),

-- Materialised, so that the join below is on the place and on nothing wider.
awaited AS MATERIALIZED (
    SELECT
        u.trace_id,
        u.event_id,
        u.device,
        u.stream,
        u.name,
        ahead.steps,
        u.position + ahead.steps * p.period AS position
    FROM unlinked AS u
    INNER JOIN period AS p
        ON
            u.trace_id = p.trace_id
            AND u.device = p.device
            AND u.stream IS NOT DISTINCT FROM p.stream
    CROSS JOIN (VALUES (1), (2), (3)) AS ahead (steps)
),

repeated AS (
    SELECT
        a.trace_id,
        a.event_id,
        a.device,
        a.stream,
        k.phase,
        k.module_id,
        k.row_name,
        k.op_id
    FROM awaited AS a
    INNER JOIN numbered AS k
        ON
            a.trace_id = k.trace_id
            AND a.device = k.device
            AND a.stream IS NOT DISTINCT FROM k.stream
            AND a.position = k.position
            AND a.name = k.name
            AND k.launch_id IS NOT NULL
    QUALIFY row_number() OVER (PARTITION BY a.trace_id, a.event_id ORDER BY a.steps) = 1
),

trusted AS (
    SELECT
        u.trace_id,
        u.device,
        u.stream
    FROM unlinked AS u
    LEFT JOIN repeated AS r ON u.trace_id = r.trace_id AND u.event_id = r.event_id
    GROUP BY u.trace_id, u.device, u.stream
    HAVING count(r.event_id) >= 0.9 * count(*)
),

accepted AS (
    SELECT r.*
    FROM repeated AS r
    INNER JOIN trusted AS t
        ON
            r.trace_id = t.trace_id
            AND r.device = t.device
            AND r.stream IS NOT DISTINCT FROM t.stream
),

by_name AS (
    SELECT
        trace_id,
        name,
        min(phase) AS phase,
        CASE
            WHEN count(row_name) = count(*) AND min(row_name) = max(row_name) THEN min(row_name)
        END AS row_name
    FROM numbered
    WHERE phase IS NOT NULL AND launch_id IS NOT NULL
    GROUP BY trace_id, name
    HAVING min(phase) = max(phase)
),

inferred AS (
    SELECT
        u.trace_id,
        u.event_id,
        coalesce(r.phase, n.phase) AS phase,
        r.module_id,
        coalesce(r.row_name, CASE WHEN r.module_id IS NULL THEN n.row_name END) AS row_name
    FROM unlinked AS u
    LEFT JOIN accepted AS r ON u.trace_id = r.trace_id AND u.event_id = r.event_id
    LEFT JOIN by_name AS n ON u.trace_id = n.trace_id AND u.name = n.name
)

SELECT
    l.trace_id,
    l.event_id,
    l.piece,
    l.launch_id,
    l.ts_ns - l.launch_end_ns AS launch_delay_ns,
    l.op_id,
    o.name AS op_name,
    coalesce(l.module_id, i.module_id) AS module_id,
    coalesce(l.phase, i.phase, 'other') AS phase,
    CASE
        WHEN coalesce(l.module_id, i.module_id) IS NULL
            THEN coalesce(l.row_name, i.row_name, '(unattributed)')
    END AS row_name,
    l.step,
    l.is_phase_inferred OR coalesce(i.phase IS NOT NULL, FALSE) AS is_inferred,
    l.link
FROM linked AS l
LEFT JOIN event AS o ON l.trace_id = o.trace_id AND l.op_id = o.event_id
LEFT JOIN inferred AS i ON l.trace_id = i.trace_id AND l.event_id = i.event_id
ORDER BY l.trace_id, l.device, l.ts_ns, l.event_id, l.piece
