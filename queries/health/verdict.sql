-- What is to be said first: the largest part of the time, the largest loss, and how far to trust it?
-- The largest part is the class of kernels that held the devices longest. A loss is time in which nothing is computed:
-- exposed communication, exposed copies, or idle time of one cause. Trust is what health warns of; of several ranks the
-- metric that warns on most. Shares are of the sum of the windows of all devices. Where health warns that the work of many
-- launches is not in the file, neither a part nor a loss is named, and trust says so.
--
-- Kind:     analysis
-- Scope:    run
-- Reduces:  timeline, kernel_classes, idle_causes, health
-- Columns:
--   topic      VARCHAR  largest_part, largest_loss or trust
--   subject    VARCHAR  class of kernels; exposed_comm, exposed_memcpy or a cause of idle time; metric of health
--   amount_ns  BIGINT   its time on all devices, ns; NULL for trust
--   share_pct  DOUBLE   amount_ns of all windows, 0 to 100
--   top_op     VARCHAR  of idle time: op that most of it is from, on the device with most of it
--   count      BIGINT   device events of the part; gaps of idle time; for trust, metrics that warn
--   of_count   BIGINT   all device events; for trust, metrics
--   meaning    VARCHAR  for trust: what the metric tells
-- Invariant: amount_ns IS NULL OR amount_ns > 0
-- Invariant: share_pct IS NULL OR (0 <= share_pct AND share_pct <= 100.0000001)

WITH windows AS (
    SELECT
        sum(window_ns)::BIGINT AS window_ns,
        sum(exposed_comm_ns)::BIGINT AS exposed_comm_ns,
        sum(exposed_memcpy_ns)::BIGINT AS exposed_memcpy_ns,
        sum(event_count)::BIGINT AS event_count
    FROM timeline_rows
),

part AS (
    SELECT
        class AS subject,
        sum(wall_ns)::BIGINT AS amount_ns,
        sum(kernel_count)::BIGINT AS kernel_count
    FROM kernel_classes_rows
    GROUP BY class
    HAVING sum(wall_ns) > 0
    ORDER BY sum(wall_ns) DESC, class
    LIMIT 1
),

loss AS (
    SELECT subject, amount_ns, top_op, gap_count
    FROM (
        SELECT
            'exposed_comm' AS subject,
            exposed_comm_ns AS amount_ns, NULL AS top_op,
            NULL::BIGINT AS gap_count
        FROM windows
        UNION ALL
        SELECT
            'exposed_memcpy' AS subject,
            exposed_memcpy_ns AS amount_ns, NULL AS top_op,
            NULL::BIGINT AS gap_count
        FROM windows
        UNION ALL
        SELECT
            cause AS subject,
            sum(idle_ns)::BIGINT AS amount_ns,
            arg_max(top_op, idle_ns) AS top_op,
            sum(gap_count)::BIGINT AS gap_count
        FROM idle_causes_rows
        GROUP BY cause
    ) AS candidate
    WHERE amount_ns > 0
    ORDER BY amount_ns DESC, subject
    LIMIT 1
),

warned AS (
    SELECT
        metric,
        metric = 'launches_without_work' AS is_of_missing_work,
        count(*) FILTER (severity = 'warn') AS warn_count,
        min(meaning) FILTER (severity = 'warn') AS meaning
    FROM health_rows
    GROUP BY metric
),

trust AS (
    SELECT
        arg_max(metric, (is_of_missing_work, warn_count, metric)) FILTER (warn_count > 0)
            AS subject,
        arg_max(meaning, (is_of_missing_work, warn_count, metric)) FILTER (warn_count > 0)
            AS meaning,
        coalesce(bool_or(is_of_missing_work AND warn_count > 0), FALSE) AS has_missing_work,
        count(*) FILTER (warn_count > 0) AS warn_count,
        count(*) AS metric_count
    FROM warned
)

SELECT
    'largest_part' AS topic,
    p.subject, p.amount_ns,
    100.0 * p.amount_ns / nullif(w.window_ns, 0) AS share_pct,
    NULL AS top_op, p.kernel_count AS count, w.event_count AS of_count, NULL AS meaning
FROM part AS p, windows AS w, trust AS t
WHERE NOT t.has_missing_work
UNION ALL
SELECT
    'largest_loss' AS topic,
    l.subject, l.amount_ns,
    100.0 * l.amount_ns / nullif(w.window_ns, 0) AS share_pct,
    l.top_op, l.gap_count AS count, NULL AS of_count, NULL AS meaning
FROM loss AS l, windows AS w, trust AS t
WHERE NOT t.has_missing_work
UNION ALL
SELECT
    'trust' AS topic,
    subject, NULL AS amount_ns, NULL AS share_pct, NULL AS top_op, warn_count AS count,
    metric_count AS of_count, meaning
FROM trust
WHERE metric_count > 0
