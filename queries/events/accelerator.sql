-- Accelerator of each trace, and whether its work was recorded.
-- A trace without any sign of an accelerator has accelerator cpu, and its CPU ops count as the device work. If a trace
-- has launch calls, device descriptions, or device processes but no device work, its kernels were not recorded. The
-- accelerator of traces without profiler categories is unknown. Ray timelines and DFTracer traces are recognized.
--
-- Kind:     table
-- Columns:
--   trace_id      INTEGER -> trace
--   accelerator   VARCHAR  cuda, hip, xpu, mtia, hpu, npu, tpu, aiu, mps, privateuse1, gpu (unknown vendor), unknown, or cpu
--   is_recorded   BOOLEAN  the trace contains the work of the accelerator; TRUE for cpu
--   launch_count  BIGINT   number of launch calls if the work was not recorded, else NULL
--   reason        VARCHAR  evidence of unrecorded work, and why it may be missing; NULL if recorded
--   unknown       VARCHAR  description of unrecognized processes that look like devices; NULL if none
-- Invariant: is_recorded = (reason IS NULL)

WITH trace_work AS (
    SELECT
        trace_id,
        coalesce(bool_or(is_device_work(category)), FALSE) AS has_work,
        coalesce(bool_or(category <> ''), FALSE) AS has_categories,
        coalesce(bool_or(is_known_category(category)), FALSE) AS is_profile,
        bool_or(category LIKE 'task:%') AS is_ray,
        bool_or(category IN ('dftracer', 'POSIX', 'STDIO', 'dlio_benchmark')) AS is_dftracer,
        array_to_string(list(category ORDER BY record_count DESC, category)[:3], ', ')
            AS categories,
        coalesce(bool_or(is_launch_call(category) AND has_hip), FALSE) AS has_hip,
        coalesce(bool_or(category LIKE 'xpu%'), FALSE) AS has_xpu,
        coalesce(bool_or(category LIKE 'privateuse1%'), FALSE) AS has_privateuse1,
        coalesce(bool_or(category = 'mtia_runtime'), FALSE) AS has_mtia
    FROM event_kind
    GROUP BY trace_id
),

marked_trace AS (
    SELECT trace_id, mode(accelerator) AS accelerator
    FROM device_mark
    WHERE role IN ('work', 'copy', 'comm')
    GROUP BY trace_id
),

unknown_device AS (
    SELECT
        trace_id,
        array_to_string(list('`' || left(name, 40) || '`' ORDER BY pid)[:3], ', ')
        || CASE WHEN count(*) > 3 THEN ' and ' || (count(*) - 3) || ' more' ELSE '' END AS names,
        format(
            if(
                count(*) > 1,
                'processes {} with {} events look like devices; tracekit does not know them',
                'process {} with {} events looks like a device; tracekit does not know it'
            ),
            names, sum(event_count)::BIGINT
        ) AS reason
    FROM device_process
    WHERE is_unknown
    GROUP BY trace_id
),

uncategorized_trace AS (
    SELECT
        trace_id, CASE
            WHEN NOT has_categories
                THEN
                    'no event has a category, as in files of the legacy torch.autograd '
                    || 'profiler; record with torch.profiler'
            WHEN is_ray
                THEN
                    'the file is a Ray timeline, which shows tasks and no device work; record '
                    || 'workers with torch.profiler'
            WHEN is_dftracer
                THEN
                    'the file is a DFTracer trace, which shows I/O and no device work; record '
                    || 'the program with torch.profiler'
            ELSE
                'no event has a category of a known profiler (most are '
                || categories || ')'
        END AS reason
    FROM trace_work
    WHERE NOT is_profile AND trace_id NOT IN (SELECT trace_id FROM device_mark)
    UNION ALL
    SELECT trace_id, 'no event has a time' AS reason
    FROM trace
    WHERE is_truncated AND trace_id NOT IN (SELECT trace_id FROM trace_work)
)

SELECT
    t.trace_id, CASE
        WHEN m.accelerator IS NOT NULL AND NOT coalesce(w.has_work, FALSE) THEN m.accelerator
        WHEN w.has_work AND w.has_hip THEN 'hip'
        WHEN w.has_work AND w.has_xpu THEN 'xpu'
        WHEN w.has_work AND w.has_mtia THEN 'mtia'
        WHEN w.has_work AND w.has_privateuse1 THEN 'privateuse1'
        WHEN w.has_work THEN 'cuda'
        WHEN x.accelerator IS NOT NULL THEN x.accelerator
        WHEN u.trace_id IS NOT NULL OR c.trace_id IS NOT NULL THEN 'unknown'
        ELSE 'cpu'
    END AS accelerator,
    x.trace_id IS NULL
    AND c.trace_id IS NULL
    AND (u.trace_id IS NULL OR w.has_work OR m.trace_id IS NOT NULL) AS is_recorded,
    CASE WHEN x.trace_id IS NOT NULL THEN x.launch_count END AS launch_count,
    CASE
        WHEN x.trace_id IS NOT NULL THEN x.reason
        WHEN u.trace_id IS NOT NULL AND NOT coalesce(w.has_work, FALSE) AND m.trace_id IS NULL
            THEN 'the device work cannot be identified: ' || u.reason
        WHEN c.trace_id IS NOT NULL
            THEN
                'the device work cannot be identified: ' || c.reason
                || if(t.is_truncated, '; the file is cut off, and the rest may contain it', '')
    END AS reason, u.reason AS unknown
FROM trace AS t
LEFT JOIN trace_work AS w USING (trace_id)
LEFT JOIN marked_trace AS m USING (trace_id)
LEFT JOIN unrecorded_run AS x USING (trace_id)
LEFT JOIN unknown_device AS u USING (trace_id)
LEFT JOIN uncategorized_trace AS c USING (trace_id)
ORDER BY t.trace_id
