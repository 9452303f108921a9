-- Traces of runs that used an accelerator whose work was not recorded.
-- Evidence is launch calls, device descriptions, processes named after a device, or ops that run only on a device.
--
-- Kind:     table
-- Access:   private
-- Input:    event_kind GROUP BY trace_id HAVING NOT coalesce(bool_or(is_device_work(category)), FALSE) AND
--           (bool_or(is_launch_call(category) OR has_special) OR trace_id IN (SELECT trace_id FROM device) OR
--           trace_id IN (SELECT trace_id FROM device_mark WHERE role = 'launch') OR trace_id IN (SELECT
--           trace_id FROM device_process) OR trace_id IN (SELECT trace_id FROM implausible WHERE is_work))
-- Columns:
--   trace_id INTEGER -> trace, accelerator VARCHAR
--   launch_count  BIGINT   number of launch calls
--   reason        VARCHAR  evidence of device work, and why it may be missing

WITH workless_trace AS (
    SELECT
        trace.trace_id,
        coalesce(bool_or(kind.category LIKE 'privateuse1%'), FALSE) AS has_privateuse1,
        sum(kind.record_count) FILTER (coalesce(kind.category, '') = '') AS unnamed_count
    FROM trace
    LEFT JOIN event_kind AS kind USING (trace_id)
    WHERE
        trace.trace_id NOT IN (
            SELECT trace_id
            FROM device_mark
            WHERE role IN ('work', 'copy', 'comm')
        )
    GROUP BY trace.trace_id
    -- Table accelerator handles traces without any categories.
    HAVING
        NOT coalesce(bool_or(is_device_work(kind.category)), FALSE)
        AND coalesce(bool_or(kind.category <> ''), count(kind.trace_id) = 0)
),

launch_name AS (
    SELECT e.trace_id, e.name, count(*) AS call_count
    FROM event AS e
    INNER JOIN workless_trace AS b USING (trace_id)
    WHERE is_launch_of_work(e.category, e.name)
    GROUP BY e.trace_id, e.name
    UNION ALL
    SELECT m.trace_id, e.name, count(*) AS call_count
    FROM device_mark AS m
    INNER JOIN workless_trace AS b USING (trace_id)
    INNER JOIN event AS e USING (trace_id, event_id)
    WHERE m.role = 'launch'
    GROUP BY m.trace_id, e.name
),

launching_trace AS (
    SELECT
        trace_id,
        sum(call_count)::BIGINT AS launch_count,
        arg_max(name, call_count) AS launch_name
    FROM launch_name
    GROUP BY trace_id
),

described_device AS (
    SELECT trace_id, count(*) AS device_count, any_value(name) AS product
    FROM device
    GROUP BY trace_id
),

device_like_process AS (
    SELECT
        trace_id,
        count(*) AS process_count,
        any_value(coalesce(nullif(label, ''), name)) AS label
    FROM device_process
    WHERE NOT is_unknown
    GROUP BY trace_id
),

special_op AS (
    SELECT e.trace_id, min(m.mark_id) AS mark_id, any_value(e.name) AS name
    FROM event AS e
    INNER JOIN workless_trace AS b USING (trace_id)
    INNER JOIN unrecorded_mark AS m ON regexp_matches(e.name, m.op)
    WHERE
        is_op(e.category)
        AND (contains(e.name, 'mps') OR starts_with(e.name, 'npu') OR starts_with(e.name, 'hpu'))
    GROUP BY e.trace_id
),

left_out_work AS (
    SELECT
        trace_id,
        count(*) AS left_out_count,
        mode(reason) AS left_out_reason
    FROM implausible
    WHERE is_work
    GROUP BY trace_id
),

sign AS (
    SELECT
        b.trace_id, b.has_privateuse1, b.unnamed_count, c.launch_count, c.launch_name,
        d.device_count, d.product,
        l.process_count, l.label, o.mark_id AS op_mark_id, o.name AS op_name,
        x.left_out_count, x.left_out_reason
    FROM workless_trace AS b
    LEFT JOIN launching_trace AS c USING (trace_id)
    LEFT JOIN described_device AS d USING (trace_id)
    LEFT JOIN device_like_process AS l USING (trace_id)
    LEFT JOIN special_op AS o USING (trace_id)
    LEFT JOIN left_out_work AS x USING (trace_id)
    WHERE
        coalesce(c.launch_count, d.device_count, l.process_count, o.mark_id, x.left_out_count)
        IS NOT NULL
),

recognised_mark AS (
    SELECT s.trace_id, min(m.mark_id) AS mark_id
    FROM sign AS s
    INNER JOIN unrecorded_mark AS m
        ON
            coalesce(regexp_matches(s.launch_name, m.call), FALSE)
            OR coalesce(regexp_matches(s.product, m.product), FALSE)
            OR coalesce(regexp_matches(s.label, m.label), FALSE)
            OR s.op_mark_id = m.mark_id
    GROUP BY s.trace_id
)

SELECT
    s.trace_id,
    CASE WHEN s.has_privateuse1 THEN 'privateuse1' ELSE coalesce(m.accelerator, 'unknown') END
        AS accelerator,
    coalesce(s.launch_count, 0) AS launch_count,
    CASE
        WHEN s.left_out_count > 0
            THEN
                'no kernel or copy has a usable time: all ' || s.left_out_count
                || ' records are ones ' || s.left_out_reason
        ELSE 'kernels were not recorded: '
    END
    || CASE
        WHEN s.left_out_count > 0 THEN ''
        WHEN s.launch_count > 0
            THEN
                s.launch_count
                || if(s.launch_count = 1, ' launch call (', ' launch calls (mostly ')
                || s.launch_name || '), but none of the launched work is in the file'
        WHEN s.device_count > 0
            THEN
                'the file describes ' || s.device_count || ' device'
                || CASE WHEN s.device_count > 1 THEN 's' ELSE '' END
                || coalesce(' (' || nullif(s.product, '') || ')', '')
                || ', but has neither device work nor launch calls'
        WHEN s.process_count > 0
            THEN
                'the file has ' || s.process_count || ' process'
                || CASE WHEN s.process_count > 1 THEN 'es' ELSE '' END || ' named after a '
                || 'device (' || s.label || '), but has neither device work nor launch calls'
        ELSE
            'the ops run on a device (' || s.op_name || '), but none of its work is in the '
            || 'file'
    END
    || CASE
        -- Profilers write host events first, so a truncated file may lack only device events.
        WHEN s.left_out_count > 0 THEN ''
        WHEN t.is_truncated
            THEN '; the file is cut off, and the missing part may contain the kernels'
        WHEN s.unnamed_count > 0
            THEN '; ' || s.unnamed_count || ' events have no category and may be kernels'
        WHEN m.reason IS NULL THEN ''
        WHEN coalesce(s.launch_count, 0) = 0 AND s.op_mark_id IS NULL
            THEN
                '; only CPU activity was recorded, or nothing ran on the device, or '
                || m.reason
        ELSE '; ' || m.reason
    END AS reason
FROM sign AS s
INNER JOIN trace AS t USING (trace_id)
LEFT JOIN recognised_mark AS r USING (trace_id)
LEFT JOIN unrecorded_mark AS m ON r.mark_id = m.mark_id
ORDER BY s.trace_id
