-- How many steps of each phase of serving put work on each device?
-- serving_phase_steps() is what times per step are divided by: a device without marked steps of a phase has no row.
--
-- Kind:     function
-- Access:   private
-- Columns:
--   trace_id    INTEGER  the trace
--   device      VARCHAR  number of the device, or cpu
--   phase       VARCHAR  prefill, mixed, decode or verify
--   step_count  BIGINT   steps

CREATE OR REPLACE MACRO serving_phase_steps() AS TABLE (
    SELECT s.trace_id, w.device, s.phase, count(*) AS step_count
    FROM serving_step_ranges AS s
    INNER JOIN serving_step_work AS w USING (trace_id, step)
    GROUP BY s.trace_id, w.device, s.phase
);
