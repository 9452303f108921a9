-- Does something count in figures per step?
-- What belongs to a step; in a trace that marks none, everything.
--
-- Kind:     function
-- Access:   private
-- Params:
--   trace_id  INTEGER  the trace
--   step      BIGINT   number of the step, NULL outside of steps

CREATE OR REPLACE MACRO is_in_step(trace_id, step) AS (
    step IS NOT NULL OR trace_id NOT IN (SELECT s.trace_id FROM step_ranges AS s)
);
