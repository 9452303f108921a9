-- Whether an event counts in per-step values. If no steps are marked, every event counts.
--
-- Kind:     function
-- Access:   private
-- Params:
--   trace_id  INTEGER  trace of the event
--   step      BIGINT   step number; NULL outside steps

CREATE OR REPLACE MACRO is_in_step(trace_id, step) AS (
    step IS NOT NULL OR trace_id NOT IN (SELECT s.trace_id FROM step_ranges AS s)
);
