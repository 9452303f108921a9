-- What ran on each device, of which kind and class, and which nanoseconds are its own?
-- A row is a kernel, copy or memset; on cpu, a piece of an op (table cpu_work).
-- Every busy nanosecond of a device belongs to exactly one event: compute before comm before memcpy, so wall_ns of comm
-- and memcpy is what is exposed of them; among equals the one that started first, then the one that ended first, then
-- the lower stream and correlation: the order of the file decides only between events that are alike in all of these.
-- So wall_ns adds up to the busy time of the device.
--
-- Kind:      table
-- Columns:
--   trace_id      INTEGER -> trace           the trace
--   event_id      BIGINT -> event            the event
--   piece         BIGINT                     number of the piece of a CPU op, from 0; 0 for work of accelerators
--   device        VARCHAR -> device_windows  number of the device, or cpu
--   stream        BIGINT                     stream of the device; the thread id on cpu
--   category      VARCHAR                    category, as in the file
--   name          VARCHAR                    kernel, copy or op
--   class         VARCHAR                    class by its name, as in table kernel_class, or by its mark; of a collective its call may say more: view classified_events
--   kind          VARCHAR                    compute, comm or memcpy
--   ts_ns         BIGINT                     start, ns
--   dur_ns        BIGINT                     duration, ns
--   end_ns        BIGINT                     end, ns
--   kind_wall_ns  BIGINT                     its part of the union of its kind on the device, ns
--   wall_ns       BIGINT                     its part of the busy time of the device, ns
--   correlation   BIGINT                     links the launch
--   bytes         BIGINT                     bytes copied or set, where the file tells
-- Invariant: 0 <= wall_ns AND wall_ns <= kind_wall_ns AND kind_wall_ns <= dur_ns
-- Note: where it is compiled, native/owned_time.c makes these rows: a change of this SQL is made there too

WITH swept AS (
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
),

work AS (
    SELECT
        *,
        trace_id || '/' || device AS part,
        row_number() OVER () AS id
    FROM swept
),

owned AS (
    SELECT
        *,
        least(
            owned_from_ns(part || kind, ts_ns, end_ns, (end_ns, stream, correlation, event_id)),
            end_ns
        ) AS owned_from_ns
    FROM work
),

piece AS (
    SELECT part, id, kind, owned_from_ns AS start_ns, end_ns
    FROM owned
    WHERE owned_from_ns < end_ns
),

compute_piece AS (SELECT * FROM piece WHERE kind = 'compute'),

comm_piece AS (SELECT * FROM piece WHERE kind = 'comm'),

memcpy_piece AS (SELECT * FROM piece WHERE kind = 'memcpy'),

compute_or_comm_piece AS (SELECT * FROM piece WHERE kind <> 'memcpy'),

hidden AS (
    SELECT * FROM interval_overlap('comm_piece', 'compute_piece')
    UNION ALL
    SELECT * FROM interval_overlap('memcpy_piece', 'compute_or_comm_piece')
)

SELECT
    owned.trace_id, owned.event_id, owned.piece, owned.device, owned.stream, owned.category,
    owned.name, owned.class, owned.kind, owned.ts_ns, owned.dur_ns, owned.end_ns,
    owned.end_ns - owned.owned_from_ns AS kind_wall_ns,
    owned.end_ns - owned.owned_from_ns - coalesce(hidden.overlap_ns, 0) AS wall_ns,
    owned.correlation, owned.bytes
FROM owned
LEFT JOIN hidden USING (id)
ORDER BY
    owned.trace_id, owned.device,
    owned.ts_ns, owned.end_ns, owned.stream, owned.correlation, owned.event_id
