-- Allocations and releases of memory blocks, with their attribution and category.
-- One row per allocator event with an address ([memory] events). A block lives until the next event with its address.
-- Phase and module follow the attribution rules. If neither the launch context nor the call stack (in allocator
-- histories) has a phase, the next work that the thread launches decides, or else the previous work. The category follows
-- from the lifetime of the block; see the final CASE.
--
-- Kind:     table
-- Created:  on demand
-- Input:    memory
-- Columns:
--   trace_id         INTEGER -> trace
--   event_id         BIGINT -> memory       allocator event
--   device           VARCHAR
--   ts_ns            BIGINT                 time, ns
--   place            BIGINT                 number of the event on its device, from 1
--   bytes            BIGINT                 block size, bytes; negative for a release
--   allocated_bytes  BIGINT                 memory in use on the device afterwards, bytes
--   reserved_bytes   BIGINT                 memory reserved by the allocator afterwards, bytes; NULL for the host
--   highest_bytes    BIGINT                 allocated_bytes; memory in use before the first event if more, bytes
--   end_place        BIGINT                 place of the event that ended the allocation; NULL if in use until the end of the recording
--   is_at_peak       BOOLEAN                the block is in use at the peak of the device
--   op_name          VARCHAR                innermost op around the event, or in its call stack
--   module_id INTEGER -> module, row_name VARCHAR
--   phase            VARCHAR                phase; other if unknown
--   step             BIGINT -> step_ranges  step whose range on the host contains the event
--   line             VARCHAR                program line, if the allocator history has it
--   category         VARCHAR                category of an allocation: parameters, gradients, optimizer state, activations, inputs, temporary, or unknown
-- Invariant: (module_id IS NULL) <> (row_name IS NULL) AND (category IS NULL) = (bytes < 0)
-- Invariant: end_place IS NULL OR (end_place > place AND bytes > 0)

-- Read the columns here once, because the view parses them from the JSON of each event.
WITH recorded AS MATERIALIZED (
    SELECT
        trace_id, event_id, pid, tid, ts_ns, device_type, device_id, address, bytes,
        total_allocated_bytes AS allocated_bytes,
        total_reserved_bytes AS reserved_bytes,
        args ->> ['Category', 'Op', 'Line', 'Stack'] AS texts
    FROM memory
),

allocator AS MATERIALIZED (
    SELECT
        m.* EXCLUDE (device_type, device_id, texts)
        REPLACE (known_reserved(d.device, m.allocated_bytes, m.reserved_bytes) AS reserved_bytes),
        d.device,
        m.texts[1] AS recorded_category,
        m.texts[2] AS recorded_op,
        m.texts[3] AS line,
        m.texts[4] AS stack
    FROM recorded AS m
    INNER JOIN memory_devices() AS d
        ON
            m.trace_id = d.trace_id
            AND m.device_type IS NOT DISTINCT FROM d.device_type
            AND m.device_id IS NOT DISTINCT FROM d.device_id
    WHERE
        m.address IS NOT NULL
        AND m.bytes <> 0
        AND is_memory_size(m.bytes)
        AND is_memory_size(m.allocated_bytes)
        AND is_memory_size(coalesce(m.reserved_bytes, 0))
),

fact AS (
    SELECT
        a.*, s.op_id, s.node_id, s.is_recompute, s.module_id, s.module_source, s.marked_phase,
        s.marked_row, s.is_weak_row, s.forward_module_id, s.hook_module_id, s.range_id,
        s.forward_range_id, t.is_training, t.has_modules,
        a.event_id AS launch_id,
        NULL AS kind, NULL AS class, FALSE AS is_input, FALSE AS is_clipping
    FROM allocator AS a
    INNER JOIN trace_traits AS t USING (trace_id)
    LEFT JOIN launch_context AS s USING (trace_id, event_id)
),

surrounded AS MATERIALIZED (
    SELECT
        * EXCLUDE (stack),
        coalesce(own_phase(marked_phase, is_recompute, node_id, module_id), CASE
            WHEN regexp_matches(stack, '/optim[^;]*: step(;|$)') THEN 'optimizer'
            WHEN regexp_matches(stack, 'run_backward|torch::autograd::Engine')
                THEN if(regexp_matches(stack, '/utils/checkpoint\.py'), 'recompute', 'backward')
            WHEN regexp_matches(stack, '/nn/modules/module\.py:\d+: _call_impl') THEN 'forward'
        END) AS own_phase
    FROM fact
),

launched AS (
    SELECT l.trace_id, l.pid, l.tid, l.ts_ns, min(a.phase) AS phase
    FROM attribution AS a
    INNER JOIN launch AS l USING (trace_id, launch_id)
    WHERE a.phase <> 'other'
    GROUP BY ALL
),

phased AS (
    SELECT
        e.trace_id, e.event_id, e.device, e.address, e.ts_ns, e.bytes, e.allocated_bytes,
        coalesce(e.own_phase, n.phase, p.phase, 'other') AS phase,
        if(e.ts_ns < s.end_ns, s.step, NULL) AS step
    FROM surrounded AS e
    ASOF LEFT JOIN launched AS n
        ON e.trace_id = n.trace_id AND e.pid = n.pid AND e.tid = n.tid AND e.ts_ns <= n.ts_ns
    ASOF LEFT JOIN launched AS p
        ON e.trace_id = p.trace_id AND e.pid = p.pid AND e.tid = p.tid AND e.ts_ns >= p.ts_ns
    ASOF LEFT JOIN step_ranges AS s ON e.trace_id = s.trace_id AND e.ts_ns >= s.ts_ns
),

-- An event outside forward and backward passes belongs to the last pass before it.
in_pass AS (
    SELECT
        *,
        any_value(CASE
            WHEN phase IN ('backward', 'recompute') THEN 'backward'
            WHEN phase NOT IN ('other', 'data') THEN phase
        END) OVER (
            PARTITION BY trace_id ORDER BY ts_ns DESC, event_id DESC
            ROWS BETWEEN CURRENT ROW AND UNBOUNDED FOLLOWING
        ) AS pass,
        row_number() OVER (PARTITION BY trace_id, device ORDER BY ts_ns, event_id) AS place
    FROM phased
),

placed AS MATERIALIZED (
    SELECT
        *,
        coalesce(pass, '')
        <> coalesce(lag(pass) OVER (PARTITION BY trace_id ORDER BY ts_ns, event_id), '')
            AS is_begin,
        lead(place) OVER (PARTITION BY trace_id, device, address ORDER BY place) AS next_place,
        greatest(allocated_bytes, if(place = 1, allocated_bytes - bytes, NULL)) AS highest_bytes
    FROM in_pass
),

numbered AS MATERIALIZED (
    SELECT
        trace_id, event_id, device, phase, step, place, next_place, highest_bytes,
        count_if(is_begin) OVER (PARTITION BY trace_id ORDER BY ts_ns, event_id) AS pass_number
    FROM placed
),

decided AS (
    SELECT
        s.*, n.phase, n.step, n.place, n.next_place, n.highest_bytes, n.pass_number,
        {phase: n.phase} AS by_phase_rule
    FROM surrounded AS s
    INNER JOIN numbered AS n USING (trace_id, event_id)
),

step_work AS (
    SELECT trace_id, ts_ns
    FROM surrounded
    WHERE own_phase <> 'data'
    UNION ALL
    SELECT trace_id, ts_ns
    FROM step_ranges
    -- Steps derived from optimizer ranges are excluded: the first one starts with the recording.
    WHERE NOT starts_with(name, 'Optimizer.step#')
),

first_step AS (
    SELECT trace_id, min(ts_ns) AS ts_ns
    FROM step_work
    GROUP BY trace_id
),

peak_event AS (
    SELECT
        trace_id, device,
        arg_max(place - (highest_bytes > allocated_bytes)::INTEGER, (highest_bytes, -place))
            AS peak_place
    FROM placed
    GROUP BY trace_id, device
),

trained AS (SELECT DISTINCT trace_id FROM placed WHERE pass = 'backward')

SELECT
    b.trace_id, b.event_id, b.device, b.ts_ns, b.place, b.bytes, b.allocated_bytes,
    b.reserved_bytes, b.highest_bytes,
    e.place AS end_place,
    b.bytes > 0 AND b.place <= w.peak_place AND coalesce(e.place > w.peak_place, TRUE)
        AS is_at_peak,
    coalesce(o.name, b.recorded_op) AS op_name,
    b.by_module_rule.module_id, CASE
        WHEN b.by_module_rule.module_id IS NULL
            THEN coalesce(b.by_module_rule.row_name, '(unattributed)')
    END AS row_name, b.phase, b.step, b.line,
    CASE
        WHEN b.bytes < 0 THEN NULL
        WHEN b.recorded_category IS NOT NULL THEN b.recorded_category
        WHEN b.ts_ns < f.ts_ns AND e.place IS NULL THEN 'parameters'
        WHEN b.pass_number = e.pass_number THEN 'temporary'
        WHEN b.ts_ns < f.ts_ns THEN 'unknown'
        WHEN b.phase = 'data' THEN 'inputs'
        WHEN b.own_phase = 'optimizer' THEN 'optimizer state'
        WHEN b.own_phase = 'backward' THEN 'gradients'
        WHEN
            b.phase IN ('forward', 'recompute')
            AND e.place IS NOT NULL
            AND b.trace_id IN (SELECT trace_id FROM trained)
            THEN 'activations'
        ELSE 'unknown'
    END AS category
FROM decided_module('decided') AS b
INNER JOIN peak_event AS w USING (trace_id, device)
LEFT JOIN numbered AS e
    ON
        b.trace_id = e.trace_id
        AND b.device = e.device
        AND b.next_place = e.place
        AND b.bytes > 0
LEFT JOIN first_step AS f ON b.trace_id = f.trace_id
LEFT JOIN event AS o ON b.trace_id = o.trace_id AND b.op_id = o.event_id
ORDER BY b.trace_id, b.device, b.place
