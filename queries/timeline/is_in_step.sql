-- Whether something counts in figures per step; without marked steps, everything does.
--
-- Kind:     function
-- Access:   private
-- Params:
--   trace_id  INTEGER  the trace
--   step      BIGINT   number of the step, NULL outside of steps

CREATE OR REPLACE MACRO is_in_step(trace_id, step) AS (
    step IS NOT NULL OR trace_id NOT IN (SELECT s.trace_id FROM step_ranges AS s)
);
