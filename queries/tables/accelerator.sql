-- Which kind of accelerator did each trace record, or which one was used and not recorded?
-- cpu where nothing tells of an accelerator: then the CPU's own ops are the device work. A trace that has no work of a
-- device, but launch calls, descriptions of devices, or processes that are named after one, is of a run on a device
-- whose kernels were not recorded: its CPU is no device.
--
-- Kind:     table
-- Requires: event_category, device_mark
-- Columns:
--   trace_id      INTEGER  the trace
--   accelerator   VARCHAR  cuda, hip, xpu, mtia, hpu, npu, tpu, aiu, mps, privateuse1, gpu (of unknown make), unknown, cpu
--   is_recorded   BOOLEAN  the file holds work of it; TRUE for cpu
--   launch_count  BIGINT   calls that put work on a device, where its work is not recorded; else NULL
--   reason        VARCHAR  what tells of work that was not recorded, and why it may be missing; NULL where it was
--   unknown       VARCHAR  processes with events that look like a device and are not known; NULL where there are none
-- Invariant: is_recorded = (reason IS NULL)

WITH work AS (
    SELECT
        trace_id,
        coalesce(bool_or(is_device_work(category)), FALSE) AS has_work,
        coalesce(bool_or(is_launch_call(category) AND name LIKE 'hip%'), FALSE) AS has_hip,
        coalesce(bool_or(category LIKE 'xpu%'), FALSE) AS has_xpu,
        coalesce(bool_or(category LIKE 'privateuse1%'), FALSE) AS has_privateuse1,
        coalesce(bool_or(category = 'mtia_runtime'), FALSE) AS has_mtia
    FROM event
    GROUP BY trace_id
),

marked AS (
    SELECT
        trace_id,
        mode(accelerator) AS accelerator
    FROM device_mark
    WHERE role IN ('work', 'copy', 'comm')
    GROUP BY trace_id
),

bare AS (
    SELECT
        trace.trace_id,
        coalesce(work.has_privateuse1, FALSE) AS has_privateuse1
    FROM trace
    LEFT JOIN work ON trace.trace_id = work.trace_id
    LEFT JOIN marked ON trace.trace_id = marked.trace_id
    WHERE NOT coalesce(work.has_work, FALSE) AND marked.trace_id IS NULL
),

-- Calls that put nothing on a device (of the profiler itself, too) tell nothing.
call AS (
    SELECT
        e.trace_id,
        e.name,
        count(*) AS call_count
    FROM event AS e
    INNER JOIN bare AS b ON e.trace_id = b.trace_id
    WHERE
        is_launch_call(e.category)
        AND regexp_matches(
            e.name, '(?i)launch|enqueue|memcpy|memset|append|runFunction|submit'
        )
    GROUP BY e.trace_id, e.name
    UNION ALL
    SELECT
        m.trace_id,
        e.name,
        count(*) AS call_count
    FROM device_mark AS m
    INNER JOIN bare AS b ON m.trace_id = b.trace_id
    INNER JOIN event AS e ON m.trace_id = e.trace_id AND m.event_id = e.event_id
    WHERE m.role = 'launch'
    GROUP BY m.trace_id, e.name
),

called AS (
    SELECT
        trace_id,
        sum(call_count)::BIGINT AS launch_count,
        arg_max(name, call_count) AS launch_name
    FROM call
    GROUP BY trace_id
),

described AS (
    SELECT
        trace_id,
        count(*) AS device_count,
        any_value(name) AS product
    FROM device
    WHERE trace_id IN (SELECT trace_id FROM bare)
    GROUP BY trace_id
),

labelled AS (
    SELECT
        trace_id,
        count(*) AS process_count,
        any_value(coalesce(nullif(label, ''), name)) AS label
    FROM device_process
    WHERE NOT is_unknown AND trace_id IN (SELECT trace_id FROM bare)
    GROUP BY trace_id
),

unknown AS (
    SELECT
        trace_id,
        sum(event_count)::BIGINT AS event_count,
        string_agg('`' || left(name, 40) || '`', ', ' ORDER BY pid) FILTER (place <= 3)
        || CASE WHEN count(*) > 3 THEN ' and ' || (count(*) - 3) || ' more' ELSE '' END AS names,
        count(*) AS process_count
    FROM (
        SELECT
            *,
            row_number() OVER (PARTITION BY trace_id ORDER BY pid) AS place
        FROM device_process
        WHERE is_unknown
    ) AS placed
    GROUP BY trace_id
),

special_op AS (
    SELECT
        e.trace_id,
        min(m.mark_id) AS mark_id,
        any_value(e.name) AS name
    FROM event AS e
    INNER JOIN bare AS b ON e.trace_id = b.trace_id
    INNER JOIN unrecorded_mark AS m ON regexp_matches(e.name, m.op)
    WHERE
        is_op(e.category)
        AND (contains(e.name, 'mps') OR starts_with(e.name, 'npu') OR starts_with(e.name, 'hpu'))
    GROUP BY e.trace_id
),

seen AS (
    SELECT
        b.trace_id,
        b.has_privateuse1,
        c.launch_count,
        c.launch_name,
        d.device_count,
        d.product,
        l.process_count,
        l.label,
        o.mark_id AS op_mark_id,
        o.name AS op_name
    FROM bare AS b
    LEFT JOIN called AS c ON b.trace_id = c.trace_id
    LEFT JOIN described AS d ON b.trace_id = d.trace_id
    LEFT JOIN labelled AS l ON b.trace_id = l.trace_id
    LEFT JOIN special_op AS o ON b.trace_id = o.trace_id
    WHERE coalesce(c.launch_count, d.device_count, l.process_count, o.mark_id) IS NOT NULL
),

recognised AS (
    SELECT
        s.trace_id,
        min(m.mark_id) AS mark_id
    FROM seen AS s
    INNER JOIN unrecorded_mark AS m
        ON
            coalesce(regexp_matches(s.launch_name, m.call), FALSE)
            OR coalesce(regexp_matches(s.product, m.product), FALSE)
            OR coalesce(regexp_matches(s.label, m.label), FALSE)
            OR s.op_mark_id = m.mark_id
    GROUP BY s.trace_id
),

missing AS (
    SELECT
        s.trace_id,
        CASE WHEN s.has_privateuse1 THEN 'privateuse1' ELSE coalesce(m.accelerator, 'unknown') END
            AS accelerator,
        coalesce(s.launch_count, 0) AS launch_count,
        'kernels were not recorded: '
        || CASE
            WHEN s.launch_count > 0
                THEN
                    s.launch_count || ' calls put work on a device (most are ' || s.launch_name
                    || '), and the file holds none of it'
            WHEN s.device_count > 0
                THEN
                    'the file describes ' || s.device_count || ' device'
                    || CASE WHEN s.device_count > 1 THEN 's' ELSE '' END
                    || coalesce(' (' || nullif(s.product, '') || ')', '')
                    || ', and holds neither work of a device nor calls that launch it'
            WHEN s.process_count > 0
                THEN
                    'the file has ' || s.process_count || ' process'
                    || CASE WHEN s.process_count > 1 THEN 'es' ELSE '' END || ' named after a '
                    || 'device (' || s.label || '), and holds neither work of a device nor calls '
                    || 'that launch it'
            ELSE
                'the ops are those of a device (' || s.op_name || '), and the file holds none of '
                || 'its work'
        END
        || CASE
            WHEN m.reason IS NULL THEN ''
            WHEN coalesce(s.launch_count, 0) = 0 AND s.op_mark_id IS NULL
                THEN
                    '; only the activity of the CPU was recorded, or nothing ran on the device, or '
                    || m.reason
            ELSE '; ' || m.reason
        END AS reason
    FROM seen AS s
    LEFT JOIN recognised AS r ON s.trace_id = r.trace_id
    LEFT JOIN unrecorded_mark AS m ON r.mark_id = m.mark_id
)

SELECT
    t.trace_id,
    CASE
        WHEN m.accelerator IS NOT NULL AND NOT coalesce(w.has_work, FALSE) THEN m.accelerator
        WHEN w.has_work AND w.has_hip THEN 'hip'
        WHEN w.has_work AND w.has_xpu THEN 'xpu'
        WHEN w.has_work AND w.has_mtia THEN 'mtia'
        WHEN w.has_work AND w.has_privateuse1 THEN 'privateuse1'
        WHEN w.has_work THEN 'cuda'
        WHEN x.accelerator IS NOT NULL THEN x.accelerator
        WHEN u.trace_id IS NOT NULL THEN 'unknown'
        ELSE 'cpu'
    END AS accelerator,
    x.trace_id IS NULL AND (u.trace_id IS NULL OR w.has_work OR m.trace_id IS NOT NULL)
        AS is_recorded,
    CASE WHEN x.trace_id IS NOT NULL THEN x.launch_count END AS launch_count,
    CASE
        WHEN x.trace_id IS NOT NULL THEN x.reason
        WHEN u.trace_id IS NOT NULL AND NOT coalesce(w.has_work, FALSE) AND m.trace_id IS NULL
            THEN 'the work of the device is not known: see `unknown_devices` in health'
    END AS reason,
    CASE
        WHEN u.trace_id IS NOT NULL
            THEN
                CASE WHEN u.process_count > 1 THEN 'processes ' ELSE 'process ' END || u.names
                || ' with ' || u.event_count || ' events look'
                || CASE WHEN u.process_count > 1 THEN '' ELSE 's' END || ' like a device; '
                || 'tracekit does not know '
                || CASE WHEN u.process_count > 1 THEN 'them' ELSE 'it' END
    END AS unknown
FROM trace AS t
LEFT JOIN work AS w ON t.trace_id = w.trace_id
LEFT JOIN marked AS m ON t.trace_id = m.trace_id
LEFT JOIN missing AS x ON t.trace_id = x.trace_id
LEFT JOIN unknown AS u ON t.trace_id = u.trace_id
ORDER BY t.trace_id
