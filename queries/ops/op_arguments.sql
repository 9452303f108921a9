-- Ops by argument shapes, types, and strides, with host and GPU time.
-- Splits the rows of `ops` by recorded arguments (record_shapes of torch.profiler), and optionally by module or
-- enclosing op.
--
-- Kind:     analysis
-- Scope:    trace
-- Params:
--   op      VARCHAR = NULL               only this op
--   within  VARCHAR{module | op} = NULL  split by module of the launched work (NULL if there are several), or by enclosing op
--   limit   BIGINT = 30                  number of rows per rank, sorted by GPU time, then host time; 0 for all
-- Columns:
--   rank          INTEGER
--   op            VARCHAR  op
--   shapes        VARCHAR  argument shapes, as recorded (Input Dims); NULL if not recorded
--   types         VARCHAR  argument types (Input type)
--   strides       VARCHAR  argument strides in elements (Input Strides)
--   numbers       VARCHAR  non-tensor arguments (Concrete Inputs) of the first call in the row
--   around        VARCHAR  if `within` is set: module with layer numbers replaced by *, or enclosing op; NULL if none
--   op_count      BIGINT   number of calls
--   host_ns       BIGINT   time from start to end of calls, on all threads, ns
--   self_host_ns  BIGINT
--   mean_host_ns  DOUBLE   mean duration of a call on the host, ns; NULL if all calls are graph replays
--   kernel_count  BIGINT   number of device events launched, nested ops included
--   kernel_ns     BIGINT   sum of durations of those device events, ns
--   wall_ns BIGINT, direct_kernel_ns BIGINT
-- Keep:     rank, op, around, shapes, op_count, host_ns, kernel_count, kernel_ns
-- Invariant: 0 <= self_host_ns AND 0 <= wall_ns AND wall_ns <= kernel_ns AND direct_kernel_ns <= kernel_ns

WITH own_module AS (
    SELECT
        a.trace_id, a.op_id AS event_id,
        if(min(m.rollup_path) = max(m.rollup_path), min(m.rollup_path), NULL) AS path
    FROM attributed_events AS a
    INNER JOIN module AS m USING (trace_id, module_id)
    WHERE $within = 'module'
    GROUP BY ALL
),

time_point AS (
    SELECT trace_id AS part, place AS id, place AS at_ns
    FROM op_work
    WHERE $within = 'op'
),

-- Calls that contain other calls. Compare positions (place), because times can be equal.
open_op AS (
    SELECT trace_id AS part, place AS id, place + 1 AS start_ns, behind_place AS end_ns
    FROM op_work
    WHERE behind_place > place + 1 AND $within = 'op'
),

outer_op AS (SELECT * FROM interval_innermost('time_point', 'open_op')),

call AS (
    SELECT
        w.* EXCLUDE (name),
        w.name AS op,
        e.args ->> '$."Input Dims"' AS shapes,
        e.args ->> '$."Input type"' AS types,
        e.args ->> '$."Input Strides"' AS strides,
        e.args ->> '$."Concrete Inputs"' AS numbers,
        e.view_name IS NULL AS is_replayed,
        coalesce(m.path, outer_call.name) AS around
    FROM op_work AS w
    INNER JOIN record AS e USING (trace_id, event_id)
    LEFT JOIN own_module AS m USING (trace_id, event_id)
    LEFT JOIN outer_op AS o ON w.place = o.id
    LEFT JOIN op_work AS outer_call ON o.span_id = outer_call.place
    WHERE $op IS NULL OR w.name = $op
),

placed_call AS (
    SELECT
        *,
        coalesce(latest_end_before_ns(
            (trace_id, pid, tid, op, shapes, types, strides, around), place, ts_ns + host_ns, place
        ) <= ts_ns, TRUE) AS is_outermost
    FROM call
),

summed AS (
    SELECT
        trace_id, op, shapes, types, strides, around,
        arg_min(numbers, place) AS numbers,
        count(*) AS op_count,
        coalesce(sum(host_ns) FILTER (is_outermost), 0)::BIGINT AS host_ns,
        avg(host_ns) FILTER (NOT is_replayed) AS mean_host_ns,
        sum(self_host_ns)::BIGINT AS self_host_ns,
        coalesce(sum(kernel_count) FILTER (is_outermost), 0)::BIGINT AS kernel_count,
        coalesce(sum(kernel_ns) FILTER (is_outermost), 0)::BIGINT AS kernel_ns,
        coalesce(sum(wall_ns) FILTER (is_outermost), 0)::BIGINT AS wall_ns,
        sum(direct_kernel_ns)::BIGINT AS direct_kernel_ns
    FROM placed_call
    GROUP BY ALL
)

SELECT
    t.rank, s.op, s.shapes, s.types, s.strides, s.numbers, s.around, s.op_count, s.host_ns,
    s.self_host_ns, s.mean_host_ns,
    s.kernel_count, s.kernel_ns, s.wall_ns, s.direct_kernel_ns
FROM summed AS s
INNER JOIN trace AS t USING (trace_id)
QUALIFY
    $limit = 0
    OR row_number() OVER (
        PARTITION BY s.trace_id
        ORDER BY
            s.direct_kernel_ns DESC, s.self_host_ns DESC, s.op,
            s.shapes, s.types, s.strides, s.around
    ) <= $limit
ORDER BY
    t.rank NULLS LAST, s.trace_id, s.direct_kernel_ns DESC, s.self_host_ns DESC, s.op, s.shapes,
    s.types, s.strides, s.around
