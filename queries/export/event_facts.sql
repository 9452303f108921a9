-- Facts about each device event for viewers: event_facts('work', 'rates').
-- Contains the attribution with its reasons, and the rate of the launching op. On cpu, the pieces of an op form one
-- row.
--
-- Kind:     function
-- Params:
--   work   VARCHAR  relation with the rows of attributed_events
--   rates  VARCHAR  relation with the rows of op_rates()
-- Columns:
--   trace_id INTEGER, event_id BIGINT, device VARCHAR, stream BIGINT
--   dur_ns  BIGINT  device time, ns; on cpu, self time of the op without nested ops
--   facts   STRUCT  kind, class, phase, module, and more

CREATE OR REPLACE MACRO event_facts(work, rates) AS TABLE (
    WITH complete_event AS (
        SELECT
            trace_id, event_id,
            any_value(device) AS device,
            any_value(stream) AS stream,
            any_value(kind) AS kind,
            any_value(class) AS class,
            any_value(phase) AS phase,
            any_value(phase_reason) AS phase_reason,
            any_value(module_id) AS module_id,
            any_value(row_name) AS row_name,
            any_value(module_reason) AS module_reason,
            any_value(is_inferred) AS is_inferred,
            any_value(step) AS step,
            any_value(op_id) AS op_id,
            any_value(op_name) AS op_name,
            any_value(link) AS link,
            any_value(launch_id) AS launch_id,
            any_value(launch_delay_ns) AS launch_delay_ns,
            any_value(bytes) AS bytes,
            sum(wall_ns)::BIGINT AS wall_ns,
            sum(dur_ns)::BIGINT AS dur_ns
        FROM query_table(work)
        GROUP BY trace_id, event_id
    )

    SELECT
        w.trace_id, w.event_id, w.device, w.stream, w.dur_ns,
        {
            kind: w.kind,
            class: w.class,
            phase: w.phase,
            phase_reason: w.phase_reason,
            module: coalesce(m.path, w.row_name),
            module_class: m.class,
            module_reason: w.module_reason,
            is_inferred: w.is_inferred,
            step: w.step,
            wall_ns: w.wall_ns,
            op: w.op_name,
            link: w.link,
            launch_event_id: w.launch_id,
            launch_delay_ns: w.launch_delay_ns,
            copied_bytes: w.bytes,
            op_flops: r.flops,
            op_bytes: r.bytes,
            op_kernel_ns: r.kernel_ns,
            op_flop_per_s: r.flop_per_s,
            op_peak_type: r.peak_type,
            op_peak_pct: r.peak_pct
        } AS facts
    FROM complete_event AS w
    LEFT JOIN module AS m USING (trace_id, module_id)
    LEFT JOIN query_table(rates) AS r
        ON
            w.trace_id = r.trace_id
            AND w.device = r.device
            AND w.op_id = r.op_id
            AND w.kind = 'compute'
);
