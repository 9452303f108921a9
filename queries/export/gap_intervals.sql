-- When was each device idle, why, and what kept the host busy?
--
-- Kind:     macro
-- Requires: idle_gap, module
-- Columns:
--   trace_id  INTEGER  the trace
--   device    VARCHAR  number of the device, or cpu
--   cause     VARCHAR  cause, as in table idle_gap
--   start_ns  BIGINT   start, ns
--   end_ns    BIGINT   end, ns
--   facts     STRUCT   what else is known, by name: reason, op, module, kernels before and after

CREATE OR REPLACE MACRO gap_intervals() AS TABLE (
    -- What the gaps name, once: joined with all events four times, each join would hold all of them.
    WITH named AS (
        SELECT
            trace_id,
            event_id,
            name
        FROM event
        WHERE (trace_id, event_id) IN (
            SELECT (trace_id, unnest([op_id, previous_event_id, next_event_id, launch_id]))
            FROM idle_gap
        )
    )

    SELECT
        g.trace_id,
        g.device,
        g.cause,
        g.start_ns,
        g.end_ns,
        {
            reason: g.reason,
            host_op: if(g.busy_op_id IS NULL, NULL, o.name),
            next_op: if(g.busy_op_id IS NULL, o.name, NULL),
            next_module: m.path,
            host_ns: g.host_ns,
            previous_kernel: p.name,
            next_kernel: n.name,
            launch: l.name,
            launch_event_id: g.launch_id,
            launch_delay_ns: g.launch_delay_ns
        } AS facts
    FROM idle_gap AS g
    LEFT JOIN named AS o ON g.trace_id = o.trace_id AND g.op_id = o.event_id
    LEFT JOIN named AS p ON g.trace_id = p.trace_id AND g.previous_event_id = p.event_id
    LEFT JOIN named AS n ON g.trace_id = n.trace_id AND g.next_event_id = n.event_id
    LEFT JOIN named AS l ON g.trace_id = l.trace_id AND g.launch_id = l.event_id
    LEFT JOIN module AS m ON g.trace_id = m.trace_id AND g.module_id = m.module_id
);
