-- Kernels, copies, and memsets with their busy time (wall_ns); on cpu, pieces of ops.
-- Each busy nanosecond of a device belongs to one event. Compute takes precedence over communication, and communication
-- over copies. Among events of one kind, start, end, stream, and correlation decide, so file order does not matter.
-- wall_ns adds up to the busy time; for comm and memcpy, it is the exposed part. native/passes/owned_time.c computes
-- kind_wall_ns and wall_ns.
--
-- Kind:      table
-- Columns:
--   trace_id INTEGER -> trace, event_id BIGINT -> event, piece BIGINT, device VARCHAR -> device_windows
--   stream BIGINT, category VARCHAR
--   name   VARCHAR  kernel, copy, or op
--   class  VARCHAR  class by name or device mark; view classified_events has the final class
--   kind VARCHAR, ts_ns BIGINT, dur_ns BIGINT, end_ns BIGINT, kind_wall_ns BIGINT, wall_ns BIGINT
--   correlation BIGINT, bytes BIGINT
-- Invariant: 0 <= wall_ns AND wall_ns <= kind_wall_ns AND kind_wall_ns <= dur_ns

SELECT
    w.trace_id, w.device, w.event_id, w.piece, w.stream, w.category, w.name, CASE
        WHEN collective_of(w.mark_class) = 'other' AND c.kind = 'comm' THEN c.class
        ELSE coalesce(w.mark_class, c.class)
    END AS class, CASE
        WHEN w.mark_class IS NULL THEN c.kind
        WHEN copy_of(w.mark_class) NOT IN ('none', 'set') THEN 'memcpy'
        WHEN collective_of(w.mark_class) <> 'none' THEN 'comm'
        ELSE 'compute'
    END AS kind,
    w.ts_ns, w.dur_ns,
    w.ts_ns + w.dur_ns AS end_ns,
    w.correlation, w.bytes
FROM device_work AS w
INNER JOIN kernel_class AS c
    ON w.name = c.name AND w.category IS NOT DISTINCT FROM c.category
ORDER BY w.trace_id, w.device, w.ts_ns, end_ns, w.stream, w.correlation, w.event_id
