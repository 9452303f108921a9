-- From when to when did each device event wait in the queue of its stream?
-- queued_events() has a row for each device event whose launch is in the trace: it is queued from the start of its launch
-- call until it starts on the device. Work that was launched before the window has none.
--
-- Kind:     function
-- Access:   private
-- Columns:
--   part      STRUCT  trace_id INTEGER, device VARCHAR and stream BIGINT
--   start_ns  BIGINT  start of the launch call, ns
--   end_ns    BIGINT  start on the device, ns

CREATE OR REPLACE MACRO queued_events() AS TABLE (
    SELECT
        {trace_id: e.trace_id, device: e.device, stream: e.stream} AS part,
        least(l.ts_ns, e.ts_ns) AS start_ns,
        e.ts_ns AS end_ns
    FROM attributed_events AS e
    INNER JOIN launch AS l USING (trace_id, launch_id)
    WHERE e.link = 'launch'
);
