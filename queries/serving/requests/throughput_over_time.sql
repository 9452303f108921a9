-- Tokens and requests of each serving run over time.
-- The interval of `throughput` is divided into equal parts. Tokens of successful requests count in the part in which
-- the client received them.
--
-- Kind:     analysis
-- Scope:    runs
-- Family:   throughput per interval
-- Params:
--   points  BIGINT = 40  number of parts
-- Columns:
--   run                  VARCHAR
--   start_ns             BIGINT  start, ns since the start of the load
--   dur_ns               BIGINT
--   output_token_count   BIGINT  output tokens received; NULL if their times are unknown
--   output_tokens_per_s  DOUBLE  output tokens received per second
--   sent_count           BIGINT  number of measured requests sent
--   ended_count          BIGINT  number of measured requests that ended, successful or not
--   ok_count             BIGINT  number of ended requests that were successful
--   running_count        BIGINT  number of requests in flight at the end of the part
-- View:
--   page  lines=run
-- Invariant: dur_ns >= 0 AND ok_count <= ended_count AND running_count >= 0

WITH measured AS (
    SELECT
        q.run_id, q.sent_ns, q.end_ns, q.output_token_count, q.token_ns,
        coalesce(q.token_counts, [1 FOR _ IN q.token_ns]) AS token_counts,
        t.is_ok
    FROM request AS q
    INNER JOIN request_times('sent') AS t ON q.run_id = t.run_id AND q.request_id = t.request_id
    WHERE t.is_measured
),

extent AS (
    SELECT
        run_id,
        min(sent_ns) AS first_ns,
        max(end_ns) FILTER (is_ok) AS last_ns,
        last_ns - first_ns AS interval_ns,
        bool_and(
            NOT is_ok
            OR coalesce(
                output_token_count = coalesce(list_sum(token_counts), 0)::BIGINT
                AND len(token_counts) = len(token_ns),
                output_token_count = 0,
                FALSE
            )
        ) AS has_times
    FROM measured
    GROUP BY run_id
    HAVING interval_ns > 0
),

time_point AS (
    SELECT
        run_id,
        unnest(token_ns) AS at_ns,
        unnest(token_counts) AS token_count
    FROM measured
    WHERE is_ok
    UNION ALL BY NAME
    SELECT run_id, sent_ns AS at_ns, 1 AS sent
    FROM measured
    UNION ALL BY NAME
    SELECT
        run_id, end_ns AS at_ns,
        1 AS ended,
        is_ok::INTEGER AS ok
    FROM measured
    WHERE end_ns IS NOT NULL
),

-- The last part also contains events at its end, and later failures.
placed AS (
    SELECT
        m.*,
        least($points * (m.at_ns - x.first_ns)::HUGEINT // x.interval_ns, $points - 1)::BIGINT
            AS part
    FROM time_point AS m
    INNER JOIN extent AS x USING (run_id)
),

counted AS (
    SELECT
        run_id, part,
        sum(token_count)::BIGINT AS token_count,
        sum(sent)::BIGINT AS sent,
        sum(ended)::BIGINT AS ended,
        sum(ok)::BIGINT AS ok
    FROM placed
    GROUP BY run_id, part
),

part AS (
    SELECT run_id, has_times, first_ns, unnest(range($points)) AS part, interval_ns
    FROM extent
),

bounded AS (
    SELECT
        *,
        first_ns + ((part * interval_ns::HUGEINT + $points - 1) // $points)::BIGINT AS start_ns,
        first_ns + (((part + 1) * interval_ns::HUGEINT + $points - 1) // $points)::BIGINT AS end_ns
    FROM part
)

SELECT
    r.folder_name AS run, b.start_ns,
    b.end_ns - b.start_ns AS dur_ns,
    if(b.has_times, coalesce(c.token_count, 0), NULL) AS output_token_count,
    if(
        b.has_times, 1e9 * coalesce(c.token_count, 0) / nullif(b.end_ns - b.start_ns, 0), NULL
    ) AS output_tokens_per_s,
    coalesce(c.sent, 0) AS sent_count,
    coalesce(c.ended, 0) AS ended_count,
    coalesce(c.ok, 0) AS ok_count,
    sum(coalesce(c.sent, 0) - coalesce(c.ended, 0)) OVER (
        PARTITION BY b.run_id ORDER BY b.part ROWS UNBOUNDED PRECEDING
    )::BIGINT AS running_count
FROM bounded AS b
INNER JOIN run AS r USING (run_id)
LEFT JOIN counted AS c USING (run_id, part)
ORDER BY r.model, r.engine, b.run_id, b.part
