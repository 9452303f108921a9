-- Bytes sent by all-to-alls from each rank to each other rank.
-- The rows are the cells of a heat map. The size of each part of a message follows from the recorded split sizes
-- (In/Out split size). Without split sizes, all parts are equal. Sent bytes come from the trace of the source, and
-- received bytes from the trace of the destination. Calls with truncated splits or ranks are excluded.
--
-- Kind:     analysis
-- Scope:    run
-- Columns:
--   pg_name VARCHAR, pg_desc VARCHAR
--   source_rank       BIGINT  sending global rank
--   destination_rank  BIGINT  receiving global rank
--   call_count        BIGINT  number of all-to-alls recorded by the source; NULL if unknown
--   sent_bytes        BIGINT  bytes according to the source; NULL if unknown
--   received_bytes    BIGINT  bytes according to the destination; NULL if unknown
--   even_count        BIGINT  number of calls without split sizes, assumed to have equal parts
-- Invariant: (call_count IS NULL) = (sent_bytes IS NULL) AND coalesce(even_count <= call_count, TRUE)
-- Invariant: sent_bytes IS NOT NULL OR received_bytes IS NOT NULL
-- Empty: no all-to-all was recorded with splits, ranks, and size

WITH recorded AS (
    SELECT
        t.rank, c.pg_name, c.pg_desc, c.message_bytes, c.out_bytes, c.group_size,
        json_extract_string(
            -- If the kernel has no splits, use the splits of the op around the launch.
            if(e.args ->> '$."In split size"' IS NULL, o.args, e.args),
            [
                '$."In split size"',
                '$."Out split size"',
                '$."Global rank start"',
                '$."Global rank stride"'
            ]
        ) AS texts,
        try_cast(c.pg_ranks AS BIGINT[]) AS listed_ranks,
        try_cast(texts[3] AS BIGINT) AS first_rank,
        try_cast(texts[4] AS BIGINT) AS stride
    FROM collective_events AS c
    INNER JOIN trace AS t USING (trace_id)
    INNER JOIN event AS e USING (trace_id, event_id)
    INNER JOIN attribution AS a USING (trace_id, event_id, piece)
    LEFT JOIN record AS o ON c.trace_id = o.trace_id AND a.op_id = o.event_id
    WHERE
        collective_of(c.class) = 'alltoall'
        AND c.is_transfer
        AND c.piece = 0
        AND t.rank IS NOT NULL
),

ranked AS (
    SELECT
        *,
        coalesce(
            listed_ranks,
            if(
                group_size BETWEEN 1 AND 65536
                AND first_rank BETWEEN 0 AND 2147483647
                AND stride BETWEEN 1 AND 65536,
                range(first_rank, first_rank + stride * group_size, stride),
                NULL
            )
        ) AS ranks,
        unnest([
            {is_sent: TRUE, bytes: message_bytes, splits: try_cast(texts[1] AS BIGINT[])},
            {is_sent: FALSE, bytes: out_bytes, splits: try_cast(texts[2] AS BIGINT[])}
        ], max_depth := 2)
    FROM recorded
),

part AS (
    SELECT
        pg_name, pg_desc, rank, is_sent, bytes,
        len(splits) = 0 AS is_even,
        unnest(ranks) AS other_rank,
        unnest(if(len(splits) = 0, list_transform(ranks, LAMBDA r: 1), splits)) AS split,
        if(len(splits) = 0, len(ranks), list_sum(splits)) AS all_splits
    FROM ranked
    WHERE bytes IS NOT NULL AND len(splits) IN (0, len(ranks))
)

SELECT
    pg_name, pg_desc,
    if(is_sent, rank, other_rank) AS source_rank,
    if(is_sent, other_rank, rank) AS destination_rank,
    nullif(count(*) FILTER (is_sent), 0) AS call_count,
    sum(bytes::HUGEINT * split // all_splits) FILTER (is_sent)::BIGINT AS sent_bytes,
    sum(bytes::HUGEINT * split // all_splits) FILTER (NOT is_sent)::BIGINT AS received_bytes,
    if(call_count IS NULL, NULL, count(*) FILTER (is_sent AND is_even)) AS even_count
FROM part
WHERE all_splits > 0 AND split >= 0
GROUP BY ALL
ORDER BY pg_name, pg_desc, source_rank, destination_rank
