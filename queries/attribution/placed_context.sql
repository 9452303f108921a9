-- To which launch, op, module, phase and step does each device event belong, as far as its launch tells?
-- One row for each row of device_events. Device events are linked to launches by correlation; of several calls with
-- one number, by the last that began before the device event, else by the nearest. View device_context adds what is
-- inferred for those without a launch.
-- What is copied to the device outside of modules, autograd and the other phases is input: phase data.
-- A phase that the launch's own context does not tell comes from the launches around it in a trace of training, and is
-- marked is_inferred: between forward and backward is the loss, between zero_grad (or the optimizer's step) and
-- backward is forward, and so on. Behind a backward pass or an optimizer's step is the optimizer, unless a kernel of
-- that block is of a class that no optimizer runs: then nothing is said of the block.
--
-- Kind:     table
-- Requires: event_category, range_marker, device_events, launch, context, module, step_ranges, accelerator
-- Columns:
--   trace_id         INTEGER  the trace
--   event_id         BIGINT   the device event
--   piece            BIGINT   number of the piece of a CPU op, from 0; 0 for work of accelerators
--   launch_id        BIGINT   the launch; NULL where it is not in the trace
--   launch_delay_ns  BIGINT   from the end of the launch to the start on the device, ns; negative if it began before
--   op_id            BIGINT   innermost op around the launch
--   op_name          VARCHAR  its name
--   module_id        INTEGER  module, as in table module; NULL where none
--   phase            VARCHAR  phase; NULL where unknown
--   row_name         VARCHAR  row of modules where there is no module; NULL where unknown
--   step             BIGINT   number of the step whose range on the CPU holds the launch
--   step_ts_ns       BIGINT   start of that range, ns
--   is_inferred      BOOLEAN  the phase comes from the launches around it
--   link             VARCHAR  launch, before_window, missing_launch or cpu
-- Invariant: (launch_id IS NULL) = (link IN ('before_window', 'missing_launch'))

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
        trace_id,
        correlation,
        ts_ns,
        end_ns,
        launch_id
    FROM numbered_launch
    WHERE same_count > 1
    ORDER BY trace_id, correlation, ts_ns, launch_id
),

-- With the first call of its number: never all pairs of device events and calls that share one.
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
    LEFT JOIN numbered_launch AS l
        ON d.trace_id = l.trace_id AND d.correlation = l.correlation AND l.place = 1
    WHERE d.device <> 'cpu'
),

-- The first call of all is the nearest one where none began before the device event.
nearest AS (
    SELECT
        p.* EXCLUDE (same_count, launch_id, launch_ts_ns, launch_end_ns),
        coalesce(l.launch_id, p.launch_id) AS launch_id,
        coalesce(l.ts_ns, p.launch_ts_ns) AS launch_ts_ns,
        coalesce(l.end_ns, p.launch_end_ns) AS launch_end_ns
    FROM pair AS p
    ASOF LEFT JOIN shared_launch AS l
        ON
            p.trace_id = l.trace_id
            AND p.correlation = l.correlation
            AND p.ts_ns >= l.ts_ns
    WHERE p.same_count > 1
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
        -- What torch.compile compiled is a model's, like what no range marks.
        c.range_id IS NULL OR starts_with(g.path, 'Torch-Compiled Region: ') AS is_unmarked,
        -- What is copied to the device outside of modules, autograd and the other phases feeds the model.
        d.class = 'memcpy_h2d'
        AND d.launch_id IS NOT NULL
        AND c.module_id IS NULL
        AND c.node_id IS NULL
        AND coalesce(c.phase, 'forward') = 'forward'
        AND c.row_name IS NULL AS is_input,
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
    LEFT JOIN module AS g ON c.trace_id = g.trace_id AND c.range_id = g.module_id
    ASOF LEFT JOIN step_ranges AS s ON d.trace_id = s.trace_id AND d.launch_ts_ns >= s.ts_ns
),

-- What tells the phase of a moment to the launches around it: launches that have one, and zero_grad, which may launch
-- nothing.
labelled AS (
    SELECT
        trace_id,
        launch_ts_ns AS at_ns,
        CASE WHEN row_name = '(zero_grad)' THEN 'zero_grad' ELSE phase END AS label
    FROM seen
    WHERE is_training AND phase IS NOT NULL
    UNION ALL
    SELECT
        e.trace_id,
        e.ts_ns AS at_ns,
        'zero_grad' AS label
    FROM event AS e
    INNER JOIN range_marker AS m ON e.category = m.category AND e.name = m.name
    WHERE m.row_name = '(zero_grad)'
),

-- Threads that run autograd's nodes.
node_thread AS (
    SELECT DISTINCT
        l.trace_id,
        l.pid,
        l.tid
    FROM context AS c
    INNER JOIN launch AS l ON c.trace_id = l.trace_id AND c.event_id = l.launch_id
    WHERE c.node_id IS NOT NULL
),

-- Launches that tell no phase, with the labels before and after. What lies between the same two is one block.
bare AS (
    SELECT
        s.*,
        b.label AS label_before,
        a.label AS label_after,
        n.tid IS NOT NULL AS is_node_thread,
        -- What no step of an optimizer runs, nor the loading of data.
        bool_or(
            s.class IN (
                'gemm', 'attention', 'conv', 'softmax', 'norm', 'rope', 'embedding', 'moe_routing'
            )
        ) OVER (PARTITION BY s.trace_id, b.at_ns, a.at_ns) AS is_model
    FROM seen AS s
    INNER JOIN launch AS l ON s.trace_id = l.trace_id AND s.launch_id = l.launch_id
    LEFT JOIN node_thread AS n ON l.trace_id = n.trace_id AND l.pid = n.pid AND l.tid = n.tid
    ASOF LEFT JOIN labelled AS b
        ON s.trace_id = b.trace_id AND s.launch_ts_ns > b.at_ns
    ASOF LEFT JOIN labelled AS a
        ON s.trace_id = a.trace_id AND s.launch_ts_ns < a.at_ns
    WHERE s.is_training AND s.phase IS NULL AND s.launch_id IS NOT NULL
),

around AS (
    SELECT *
    FROM bare
    UNION ALL
    SELECT
        *,
        NULL AS label_before,
        NULL AS label_after,
        FALSE AS is_node_thread,
        FALSE AS is_model
    FROM seen
    WHERE NOT is_training OR phase IS NOT NULL OR launch_id IS NULL
),

phased AS (
    SELECT
        * EXCLUDE (phase),
        phase AS own_phase,
        CASE
            WHEN is_input THEN 'data'
            WHEN phase IS NOT NULL THEN phase
            WHEN launch_id IS NULL THEN NULL
            WHEN
                NOT is_training
                AND NOT has_modules
                AND NOT has_phases
                AND is_unmarked
                AND kind = 'compute'
                THEN 'forward'
            WHEN NOT is_training THEN NULL
            -- Between zero_grad, or the step of the optimizer, and the backward pass is a forward pass.
            WHEN
                label_after IN ('backward', 'recompute')
                AND coalesce(label_before, 'zero_grad') NOT IN ('backward', 'recompute')
                THEN 'forward'
            WHEN label_before = 'zero_grad'
                THEN CASE
                    WHEN coalesce(label_after, 'forward') IN ('forward', 'data') THEN 'forward'
                END
            WHEN label_before = 'forward' THEN 'forward'
            WHEN
                label_before IN ('backward', 'recompute')
                AND label_after IN ('backward', 'recompute')
                -- A model that runs beside autograd's threads, between two passes of these, is none.
                AND (is_node_thread OR NOT is_model)
                THEN 'backward'
            WHEN label_before = 'recompute' THEN 'backward'
            WHEN label_before IS NULL AND label_after = 'forward' THEN 'forward'
            WHEN label_before = 'data' AND label_after = 'forward' AND is_model THEN 'forward'
            WHEN is_model OR (label_before IS NULL AND label_after = 'zero_grad') THEN NULL
            WHEN label_before = 'backward' THEN 'optimizer'
            WHEN 'data' IN (label_before, label_after) THEN 'data'
            ELSE coalesce(label_before, label_after)
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
            WHEN is_input THEN '(data loading)'
            WHEN
                has_modules AND is_training AND (node_id IS NOT NULL OR phase = 'forward')
                THEN '(loss)'
            WHEN class = 'memcpy_h2d' AND NOT is_training THEN '(data loading)'
            WHEN phase = 'optimizer' THEN '(optimizer)'
        END AS row_name
    FROM phased
),

linked AS (
    SELECT
        *,
        NOT is_input AND coalesce(phase IS DISTINCT FROM own_phase, FALSE) AS is_inferred
    FROM rowed
)

SELECT
    l.trace_id,
    l.event_id,
    l.piece,
    l.launch_id,
    l.ts_ns - l.launch_end_ns AS launch_delay_ns,
    l.op_id,
    o.name AS op_name,
    l.module_id,
    l.phase,
    CASE WHEN l.module_id IS NULL THEN l.row_name END AS row_name,
    l.step,
    l.step_ts_ns,
    l.is_inferred,
    l.link
FROM linked AS l
LEFT JOIN event AS o ON l.trace_id = o.trace_id AND l.op_id = o.event_id
ORDER BY l.trace_id, l.device, l.ts_ns, l.event_id, l.piece
