-- Device events by stream, ready to draw as a timeline.
-- The longest events have their own rows. The other events are combined in tiles. A tile contains the events of one
-- kind and stream that start in the same part of the device window. Times count from the first event of each trace;
-- clocks of different ranks are not aligned.
--
-- Kind:     analysis
-- Scope:    trace
-- Family:   timeline per event
-- Params:
--   limit  BIGINT = 100000  number of events with their own row; 0 for all
--   tiles  BIGINT = 4096    number of parts of the device window, for tiles
-- Columns:
--   trace_id INTEGER -> trace, rank INTEGER, device VARCHAR, stream BIGINT
--   event_id     BIGINT -> event  event; NULL for a tile
--   start_ns     BIGINT           start, ns since the first event of the trace
--   dur_ns       BIGINT           duration, ns; for a tile, time to the end of its last event
--   kind         VARCHAR
--   name         VARCHAR          kernel, copy, or op; NULL for a tile
--   class        VARCHAR          kernel class; NULL for a tile
--   phase        VARCHAR          phase; NULL for a tile
--   module_path  VARCHAR          module path; NULL for a tile or outside modules
--   event_count  BIGINT           number of events: 1, or the number in the tile; each piece of a CPU op counts
--   kernel_ns    BIGINT
-- Keep:     rank, device, stream, start_ns, dur_ns, kind, name, event_count
-- Invariant: event_count >= 1 AND 0 <= dur_ns AND (event_id IS NOT NULL OR kernel_ns >= 0)
-- Invariant: event_id IS NULL OR (event_count = 1 AND kernel_ns = dur_ns)

WITH ranked AS (
    SELECT
        e.trace_id, w.rank, e.device, e.stream, e.event_id,
        e.ts_ns - t.first_ts_ns AS start_ns,
        e.dur_ns, e.kind, e.name, e.class, e.phase, e.module_id,
        $tiles::HUGEINT * (e.ts_ns - w.start_ns) // greatest(w.window_ns, 1) AS tile,
        $limit = 0
        OR row_number() OVER (ORDER BY e.dur_ns DESC, e.trace_id, e.event_id, e.piece) <= $limit
            AS is_alone
    FROM attributed_events AS e
    INNER JOIN trace AS t USING (trace_id)
    INNER JOIN device_windows AS w USING (trace_id, device)
),

timeline_event AS (
    SELECT
        r.trace_id, r.rank, r.device, r.stream, r.event_id, r.start_ns, r.dur_ns, r.kind, r.name,
        r.class, r.phase, m.path AS module_path,
        1::BIGINT AS event_count,
        r.dur_ns AS kernel_ns
    FROM ranked AS r
    LEFT JOIN module AS m USING (trace_id, module_id)
    WHERE r.is_alone
    UNION ALL
    SELECT
        trace_id, rank, device, stream, NULL AS event_id,
        min(start_ns) AS start_ns,
        max(start_ns + dur_ns) - min(start_ns) AS dur_ns,
        kind, NULL AS name, NULL AS class, NULL AS phase, NULL AS module_path,
        count(*) AS event_count,
        sum(dur_ns)::BIGINT AS kernel_ns
    FROM ranked
    WHERE NOT is_alone
    GROUP BY trace_id, rank, device, stream, kind, tile
)

SELECT
    trace_id, rank, device, stream, event_id, start_ns, dur_ns, kind, name, class, phase,
    module_path, event_count, kernel_ns
FROM timeline_event
ORDER BY rank NULLS LAST, trace_id, device, stream, start_ns, dur_ns DESC, kind, event_id
