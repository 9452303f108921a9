-- Main findings: late rank, largest share, largest loss, and data quality.
-- A rank is late if it causes more than half of the waits in collectives, and at least 1 % of the other ranks' windows.
-- Waits that it passed on do not count. late_by is the part of its time that exceeds the median of the other ranks
-- most, if the excess explains half of the wait. Losses are exposed communication, exposed copies, and idle causes
-- except not_recorded and profiler. Idle causes are ranked by at most the unprofiled idle time. trust is the most
-- important warning or note of `health`; if many launches lack their work, it is the only topic.
--
-- Kind:     analysis
-- Scope:    run
-- Input:    timeline
-- Columns:
--   topic       VARCHAR  late_rank, late_by, others_wait, largest_part, largest_loss, or trust
--   subject     VARCHAR  kernel class; compute, exposed_comm, exposed_memcpy, or idle cause; metric of health
--   amount_ns   BIGINT   time over all devices, ns (late_rank: wait for it; late_by: excess over the median); NULL for trust
--   share_pct   DOUBLE   share of all windows (for others_wait, of the others), 0 to 100; NULL for late_by
--   top_op      VARCHAR  op with most of the idle time
--   count       BIGINT   number of collectives in which the late rank was last, waiting ranks, device events, or gaps; for trust, metrics with warnings
--   of_count    BIGINT   total number of device events; for trust, of metrics
--   meaning     VARCHAR  for trust, explanation of the metric
--   top_python  VARCHAR  Python function with most of the idle time
--   rank        INTEGER  late rank
--   note_count  BIGINT   for trust, number of metrics with notes but no warnings
--   value       DOUBLE   for trust, value of the metric; with several ranks, the worst value
--   unit        VARCHAR  unit of value: count, pct, ns, or bytes
-- Keep:     topic, subject, amount_ns, share_pct, count, of_count, meaning, value
-- Invariant: amount_ns IS NULL OR amount_ns > 0
-- Invariant: share_pct IS NULL OR topic = 'late_rank' OR (0 <= share_pct AND share_pct <= 100.0000001)

WITH windows AS (
    SELECT
        sum(window_ns)::BIGINT AS window_ns,
        sum(exposed_comm_ns)::BIGINT AS exposed_comm_ns,
        sum(exposed_memcpy_ns)::BIGINT AS exposed_memcpy_ns,
        sum(event_count)::BIGINT AS event_count
    FROM timeline
),

part AS (
    SELECT
        class AS subject,
        sum(wall_ns)::BIGINT AS amount_ns,
        sum(kernel_count)::BIGINT AS kernel_count
    FROM kernel_classes
    GROUP BY class
    HAVING sum(wall_ns) > 0
    ORDER BY sum(wall_ns) DESC, class
    LIMIT 1
),

loss AS (
    SELECT subject, amount_ns, place, gap_count
    FROM (
        SELECT 'exposed_comm' AS subject, exposed_comm_ns AS amount_ns
        FROM windows
        UNION ALL BY NAME
        SELECT 'exposed_memcpy' AS subject, exposed_memcpy_ns AS amount_ns
        FROM windows
        UNION ALL BY NAME
        SELECT
            c.cause AS subject,
            sum(c.idle_ns)::BIGINT AS amount_ns,
            arg_max({op: c.top_op, python: c.top_python}, (c.idle_ns, -c.rowid)) AS place,
            sum(c.gap_count)::BIGINT AS gap_count,
            (
                any_value(w.window_ns)
                * greatest(any_value(r.unprofiled_step_ns - r.work_ns), 0)
                / any_value(r.recorded_step_ns)
            )::BIGINT AS most_ns
        FROM idle_causes AS c
        CROSS JOIN windows AS w
        LEFT JOIN run_idle AS r ON r.idle_pct IS NOT NULL
        WHERE c.cause NOT IN ('not_recorded', 'profiler')
        GROUP BY c.cause
    ) AS candidate
    WHERE amount_ns > 0
    ORDER BY least(amount_ns, most_ns) DESC, amount_ns DESC, subject
    LIMIT 1
),

warned AS (
    SELECT
        metric,
        metric = 'implausible_records' AS is_of_records,
        metric = 'launches_without_work' AS is_of_missing_work,
        count(*) FILTER (severity = 'warn') AS warn_count,
        count(*) FILTER (severity = 'note') AS note_count,
        min(meaning) FILTER (severity = 'warn') AS warned,
        min(meaning) FILTER (severity = 'note') AS noted,
        any_value(unit) AS unit,
        if(
            any_value(unit) = 'pct' AND metric <> 'inferred_device_time', min(value), max(value)
        ) AS value
    FROM health
    GROUP BY metric
),

-- Most important metric, in this order: warnings before notes, implausible records, missing work,
-- number of ranks with the warning, missing ranks, unattributed share.
weighed AS (
    SELECT
        *,
        (
            warn_count > 0,
            is_of_records AND warn_count > 0,
            is_of_missing_work AND warn_count > 0,
            warn_count,
            metric = 'missing_ranks',
            if(
                metric LIKE 'device_time_in%' OR metric = 'device_time_linked',
                coalesce(100 - value, 0), -1
            ),
            metric
        ) AS weight
    FROM warned
),

trust AS (
    SELECT
        arg_max(
            {metric: metric, meaning: coalesce(warned, noted), value: value, unit: unit}, weight
        ) FILTER (warn_count + note_count > 0) AS first_one,
        count(*) FILTER (warn_count = 0 AND note_count > 0) AS note_count,
        coalesce(bool_or(is_of_missing_work AND warn_count > 0), FALSE) AS has_missing_work,
        count(*) FILTER (warn_count > 0) AS warn_count,
        count(*) AS metric_count
    FROM weighed
),

-- Waits for each rank, excluding waits that it passed on from another rank.
waited AS (
    SELECT
        straggler_rank AS rank,
        sum(wait_ns - passed_on_ns)::BIGINT AS wait_ns,
        sum(match_count)::BIGINT AS match_count,
        sum(sum(wait_ns - passed_on_ns)) OVER () AS all_wait_ns
    FROM waits(p_limit := 0)
    WHERE straggler_rank IS NOT NULL
    GROUP BY straggler_rank
),

late AS (
    SELECT
        waited.rank, waited.wait_ns, waited.match_count,
        count(DISTINCT other.rank) AS other_count,
        sum(other.window_ns)::BIGINT AS window_ns,
        sum(other.exposed_comm_ns)::BIGINT AS exposed_comm_ns
    FROM waited
    INNER JOIN timeline AS other ON waited.rank <> other.rank
    CROSS JOIN trust
    WHERE 2 * waited.wait_ns > waited.all_wait_ns AND NOT trust.has_missing_work
    GROUP BY waited.rank, waited.wait_ns, waited.match_count
    HAVING 100 * waited.wait_ns >= sum(other.window_ns)
),

spent AS (
    SELECT rank, 'compute' AS subject, compute_ns AS amount_ns, NULL AS place
    FROM timeline
    UNION ALL
    SELECT rank, 'exposed_memcpy' AS subject, exposed_memcpy_ns AS amount_ns, NULL AS place
    FROM timeline
    UNION ALL
    SELECT
        rank, cause AS subject,
        idle_ns AS amount_ns,
        {op: top_op, python: top_python} AS place
    FROM idle_causes
    WHERE cause NOT IN ('comm_wait', 'not_recorded', 'profiler')
),

rank_spent AS (
    SELECT
        r.rank, kind.subject,
        coalesce(sum(s.amount_ns), 0)::BIGINT AS amount_ns,
        arg_max(s.place, s.amount_ns) AS place
    FROM (SELECT DISTINCT rank FROM timeline WHERE rank IS NOT NULL) AS r
    CROSS JOIN (SELECT DISTINCT subject FROM spent) AS kind
    LEFT JOIN spent AS s ON r.rank = s.rank AND kind.subject = s.subject
    GROUP BY r.rank, kind.subject
),

late_by AS (
    SELECT
        late.rank, one.subject, one.place,
        (one.amount_ns - median(other.amount_ns))::BIGINT AS amount_ns
    FROM late
    INNER JOIN rank_spent AS one USING (rank)
    INNER JOIN rank_spent AS other ON late.rank <> other.rank AND one.subject = other.subject
    GROUP BY late.rank, late.wait_ns, late.other_count, one.subject, one.amount_ns, one.place
    HAVING 2 * (one.amount_ns - median(other.amount_ns)) * late.other_count >= late.wait_ns
    ORDER BY amount_ns DESC, one.subject
    LIMIT 1
),

topics AS (
    SELECT
        'late_rank' AS topic,
        wait_ns AS amount_ns,
        100.0 * wait_ns / window_ns AS share_pct,
        match_count AS count, rank
    FROM late
    UNION ALL BY NAME
    SELECT
        'late_by' AS topic,
        subject, amount_ns, place, rank
    FROM late_by
    UNION ALL BY NAME
    SELECT
        'others_wait' AS topic,
        'exposed_comm' AS subject,
        exposed_comm_ns AS amount_ns,
        100.0 * exposed_comm_ns / window_ns AS share_pct,
        other_count AS count, rank
    FROM late
    WHERE exposed_comm_ns > 0
    UNION ALL BY NAME
    SELECT
        'largest_part' AS topic,
        p.subject, p.amount_ns,
        100.0 * p.amount_ns / nullif(w.window_ns, 0) AS share_pct,
        p.kernel_count AS count, w.event_count AS of_count
    FROM part AS p, windows AS w, trust AS t
    WHERE NOT t.has_missing_work
    UNION ALL BY NAME
    SELECT
        'largest_loss' AS topic,
        l.subject, l.amount_ns,
        100.0 * l.amount_ns / nullif(w.window_ns, 0) AS share_pct,
        l.place, l.gap_count AS count
    FROM loss AS l, windows AS w, trust AS t
    WHERE NOT t.has_missing_work
    UNION ALL BY NAME
    SELECT
        'trust' AS topic,
        first_one.metric AS subject, warn_count AS count, metric_count AS of_count, note_count,
        first_one.meaning, first_one.value, first_one.unit
    FROM trust
    WHERE metric_count > 0
)

SELECT
    topic, subject, amount_ns, share_pct, place.op AS top_op, count, of_count, meaning,
    place.python AS top_python, rank, note_count, value, unit
FROM topics
