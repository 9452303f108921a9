-- Busy and idle time of each device: one row per device event piece or idle gap segment.
-- wall_ns and idle_ns add up to the device window. `tracekit pivot` groups these rows. Idle segments have class and
-- kind idle, the cause as reason, and the host context from idle_gap.
--
-- Kind:     view
-- Columns:
--   trace_id      INTEGER -> trace
--   event_id      BIGINT -> event        device event, or for a gap, the device event that ended it
--   piece BIGINT, rank INTEGER, device VARCHAR -> device_windows
--   stream        BIGINT                 stream; NULL for gaps
--   step          BIGINT -> step_ranges  step; for gaps, the step of the host
--   phase         VARCHAR                phase; other if unknown
--   module        VARCHAR                module path with layer numbers replaced by *, or a row such as (optimizer) for work outside modules
--   module_path VARCHAR, module_class VARCHAR
--   layer         INTEGER                layer number
--   class         VARCHAR                kernel class, or idle
--   kind          VARCHAR                compute, comm, memcpy, or idle
--   op            VARCHAR                innermost op around the launch; for gaps, as in idle_gap
--   name          VARCHAR                kernel, copy, or op; NULL for gaps
--   kernel        VARCHAR                same as name, as a dimension of `tracekit pivot`
--   launch        VARCHAR                launch call of the event, or of the work that ended the gap
--   link          VARCHAR
--   reason        VARCHAR                how the phase is known, as in attribution_reasons(), or cause of the gap
--   ts_ns         BIGINT                 start, ns since the first event
--   dur_ns        BIGINT                 duration of the event or gap segment, ns
--   wall_ns       BIGINT
--   kernel_ns     BIGINT                 duration, ns
--   idle_ns       BIGINT
--   kernel_count  BIGINT                 1 for the first piece of a device event, 0 for other pieces and gaps
--   bytes         BIGINT
-- Invariant: wall_ns >= 0 AND idle_ns >= 0 AND (wall_ns = 0 OR idle_ns = 0) AND wall_ns <= kernel_ns

WITH timed_work AS (
    SELECT
        trace_id, event_id, piece, device, stream, step, phase, module_id, row_name, class, kind,
        op_name AS op, name, ts_ns, launch_id, link, phase_reason AS reason,
        wall_ns, dur_ns AS kernel_ns, 0 AS idle_ns, (piece = 0)::BIGINT AS kernel_count, bytes
    FROM attributed_events
    UNION ALL BY NAME
    SELECT
        g.trace_id, g.next_event_id AS event_id, g.next_piece AS piece, g.device, g.step, g.phase,
        g.module_id, g.row_name,
        'idle' AS class, 'idle' AS kind, o.name AS op, g.launch_id, a.link, g.cause AS reason,
        g.start_ns AS ts_ns, 0 AS wall_ns, 0 AS kernel_ns, g.idle_ns, 0 AS kernel_count
    FROM idle_gap AS g
    INNER JOIN attribution AS a
        ON g.trace_id = a.trace_id AND g.next_event_id = a.event_id AND g.next_piece = a.piece
    LEFT JOIN record AS o ON g.trace_id = o.trace_id AND g.op_id = o.event_id
)

SELECT
    t.trace_id, t.event_id, t.piece, w.rank, t.device, t.stream, t.step, t.phase,
    coalesce(m.rollup_path, t.row_name, '(no module)') AS module,
    coalesce(m.path, t.row_name, '(no module)') AS module_path,
    m.class AS module_class, m.layer, t.class, t.kind, t.op, t.name, t.name AS kernel,
    l.name AS launch, t.link, t.reason, t.ts_ns, t.kernel_ns + t.idle_ns AS dur_ns,
    t.wall_ns, t.kernel_ns, t.idle_ns, t.kernel_count, t.bytes
FROM timed_work AS t
INNER JOIN device_windows AS w USING (trace_id, device)
LEFT JOIN module AS m USING (trace_id, module_id)
LEFT JOIN launch AS l USING (trace_id, launch_id)
