-- Which ops did the host call with which arguments, how long did they take, and what did they put on devices?
-- As analysis ops, by shapes, types and strides of what each call was given, as far as the trace has them
-- (torch.profiler with record_shapes). `within` splits the calls further: by the module of the work that they launched
-- themselves (calls whose work is of several modules have none), or by the innermost op around them.
--
-- Kind:     analysis
-- Scope:    trace
-- Params:
--   op      VARCHAR = NULL                  only calls of this op
--   within  VARCHAR{module | op} = NULL  module or op around the calls to split them by
--   limit   BIGINT = 30                     the rows of each rank that were longest on devices, then on the host; 0 for all
-- Columns:
--   rank              INTEGER  global rank
--   op                VARCHAR  the op
--   shapes            VARCHAR  shapes of its arguments, as in the file (Input Dims); NULL where not recorded
--   types             VARCHAR  their types (Input type)
--   strides           VARCHAR  their strides, in elements (Input Strides)
--   numbers           VARCHAR  what was given for arguments that are no tensors (Concrete Inputs), in the first such call
--   around            VARCHAR  with within: module, layers as *, or op around the calls; NULL where none
--   op_count          BIGINT   calls
--   host_ns           BIGINT   from their starts to their ends, on all threads, ns
--   self_host_ns      BIGINT   of that, in no op inside of them, ns
--   mean_host_ns      DOUBLE   host_ns per call, ns
--   kernel_count      BIGINT   device events that they and the ops inside of them launched
--   kernel_ns         BIGINT   sum of the durations of these, ns
--   wall_ns           BIGINT   busy time of the devices that is theirs, ns
--   direct_kernel_ns  BIGINT   sum of the durations of device events that they launched themselves, ns
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

moment AS (
    SELECT trace_id AS part, place AS id, place AS at_ns
    FROM op_work
    WHERE $within = 'op'
),

-- What begins while a call is open, as places, which take the place of times.
open_op AS (
    SELECT trace_id AS part, place AS id, place + 1 AS start_ns, behind_place AS end_ns
    FROM op_work
    WHERE behind_place > place + 1 AND $within = 'op'
),

outer_op AS (SELECT * FROM interval_innermost('moment', 'open_op')),

call AS (
    SELECT
        w.* EXCLUDE (name),
        w.name AS op,
        e.args ->> '$."Input Dims"' AS shapes,
        e.args ->> '$."Input type"' AS types,
        e.args ->> '$."Input Strides"' AS strides,
        e.args ->> '$."Concrete Inputs"' AS numbers,
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
    s.self_host_ns,
    s.host_ns / s.op_count AS mean_host_ns,
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
