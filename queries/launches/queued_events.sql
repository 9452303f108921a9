-- Time each device event spends in the queue of its stream: queued_events().
-- An event is queued from the start of its launch call to its own start. Only events with a recorded launch have a row.
--
-- Kind:     function
-- Access:   private
-- Columns:
--   part STRUCT, start_ns BIGINT, end_ns BIGINT

CREATE OR REPLACE MACRO queued_events() AS TABLE (
    SELECT
        {trace_id: e.trace_id, device: e.device, stream: e.stream} AS part,
        least(l.ts_ns, e.ts_ns) AS start_ns,
        e.ts_ns AS end_ns
    FROM attributed_events AS e
    INNER JOIN launch AS l USING (trace_id, launch_id)
    WHERE e.link = 'launch'
);
