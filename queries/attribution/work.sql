-- What did every nanosecond of each device go to?
-- One row for each device event, with all that is known of it, and one for each piece of an idle gap: wall_ns and
-- idle_ns of all rows of a device add up to its window. What tracekit pivot groups; a piece of a gap has class and kind
-- idle, its cause as reason, and step, phase and module of table idle_gap: those that the host was in.
--
-- Kind:     view
-- Columns:
--   trace_id      INTEGER -> trace           the trace
--   event_id      BIGINT -> event            the device event; that which ended the gap
--   piece         BIGINT                     number of the piece of a CPU op, from 0; 0 for work of accelerators
--   rank          INTEGER                    global rank
--   device        VARCHAR -> device_windows  number of the device, or cpu
--   stream        BIGINT                     stream of the device; NULL of a gap, which is that of all streams
--   step          BIGINT -> step_ranges      number of the step; of a gap, that which the host was in
--   phase         VARCHAR                    phase; other where unknown
--   module        VARCHAR                    module with the numbers of layers replaced by *, or a row in parentheses
--   module_path   VARCHAR                    its whole path
--   module_class  VARCHAR                    its class, where known
--   layer         INTEGER                    number of the layer that it is in
--   class         VARCHAR                    class, as in kernel_classes; idle
--   kind          VARCHAR                    compute, comm, memcpy or idle
--   op            VARCHAR                    innermost op around the launch; of a gap, op of table idle_gap
--   kernel        VARCHAR                    kernel, copy or op; NULL of a gap
--   launch        VARCHAR                    call that launched it, or the work that ended the gap
--   link          VARCHAR                    launch, before_window, missing_launch or cpu
--   reason        VARCHAR                    how the phase is known, as in attribution_reasons(); cause of a gap
--   wall_ns       BIGINT                     its part of the busy time of the device, ns
--   kernel_ns     BIGINT                     its duration, ns
--   idle_ns       BIGINT                     length of the gap, ns
--   kernel_count  BIGINT                     1 of a device event, 0 of further pieces of it and of gaps
--   bytes         BIGINT                     bytes copied or set, where the file tells
-- Invariant: wall_ns >= 0 AND idle_ns >= 0 AND (wall_ns = 0 OR idle_ns = 0) AND wall_ns <= kernel_ns

WITH told AS (
    SELECT
        trace_id, event_id, piece, device, stream, step, phase, module_id, row_name, class, kind,
        op_name AS op, name AS kernel, launch_id, link, phase_reason AS reason,
        wall_ns, dur_ns AS kernel_ns, 0 AS idle_ns, (piece = 0)::BIGINT AS kernel_count, bytes
    FROM attributed_events
    UNION ALL BY NAME
    SELECT
        g.trace_id, g.next_event_id AS event_id, g.next_piece AS piece, g.device, g.step, g.phase,
        g.module_id, g.row_name,
        'idle' AS class, 'idle' AS kind, o.name AS op, g.launch_id, a.link, g.cause AS reason,
        0 AS wall_ns, 0 AS kernel_ns, g.idle_ns, 0 AS kernel_count
    FROM idle_gap AS g
    INNER JOIN attribution AS a
        ON g.trace_id = a.trace_id AND g.next_event_id = a.event_id AND g.next_piece = a.piece
    LEFT JOIN record AS o ON g.trace_id = o.trace_id AND g.op_id = o.event_id
)

SELECT
    t.trace_id, t.event_id, t.piece, w.rank, t.device, t.stream, t.step, t.phase,
    coalesce(m.rollup_path, t.row_name, '(no module)') AS module,
    coalesce(m.path, t.row_name, '(no module)') AS module_path,
    m.class AS module_class, m.layer, t.class, t.kind, t.op, t.kernel, l.name AS launch, t.link,
    t.reason, t.wall_ns, t.kernel_ns, t.idle_ns, t.kernel_count, t.bytes
FROM told AS t
INNER JOIN device_windows AS w USING (trace_id, device)
LEFT JOIN module AS m USING (trace_id, module_id)
LEFT JOIN launch AS l USING (trace_id, launch_id)
