-- Number of steps with work in each serving phase, per device.
--
-- Kind:     function
-- Access:   private
-- Columns:
--   trace_id INTEGER, device VARCHAR, phase VARCHAR, step_count BIGINT

CREATE OR REPLACE MACRO serving_phase_steps() AS TABLE (
    SELECT s.trace_id, w.device, s.phase, count(*) AS step_count
    FROM serving_step_ranges AS s
    INNER JOIN serving_step_work AS w USING (trace_id, step)
    GROUP BY s.trace_id, w.device, s.phase
);
