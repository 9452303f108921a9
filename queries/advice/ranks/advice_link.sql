-- Process groups with far slower transfers than comparable groups.
-- Comparable groups have the same purpose, size, and collective. At least three such groups are needed (see
-- `stragglers`).
--
-- Kind:     advice
-- Scope:    run
-- Input:    group_transfers

-- The change selects transfers by class and group, or by rank for send/receive pairs, so sum over
-- all selected transfers.
WITH chosen AS (
    SELECT
        class, pg_name, transfer_ns,
        unnest(if(sender_rank IS NULL AND pg_name IS NOT NULL, [NULL], ranks)) AS rank,
        if(is_outlier, excess_ns, 0) AS excess_ns
    FROM group_transfers
),

changed AS (
    SELECT
        concat_ws(
            ' ', 'class=' || class, 'group=' || chosen_name(pg_name), 'rank=' || rank,
            format('x{:.3f}', 1 - sum(excess_ns) / sum(transfer_ns))
        ) AS change
    FROM chosen
    GROUP BY class, pg_name, rank
    HAVING sum(excess_ns) > 0
)

SELECT
    format(
        'Ranks {} take {} for {} {} transfers, {} more than the median of {} comparable groups{}',
        array_to_string(ranks, ', '), in_ms(transfer_ns), match_count, class, in_ms(excess_ns),
        peer_count,
        coalesce(
            format(
                ' ({:.1f} instead of {:.1f} GB/s)', bus_bytes_per_s / 1e9,
                peer_bus_bytes_per_s / 1e9
            ), ''
        )
    ) AS what,
    if(
        len(nodes) = 1, format('slow link within {}', nodes[1]),
        'slow link between ' || array_to_string(if(nodes = [], ranks::VARCHAR[], nodes), ', ')
    ) AS place,
    (SELECT string_agg(change, '; ' ORDER BY change) FROM changed) AS change,
    (sum(excess_ns) OVER ())::BIGINT AS cost_ns,
    'Check the cable, the card, and other users of the link. NCCL_DEBUG=INFO shows the '
    || 'transport; nvidia-smi topo -m and ibstat show the links.' AS remedy,
    'tracekit query stragglers TRACE' AS evidence
FROM group_transfers
WHERE is_outlier
ORDER BY excess_ns DESC, class, ranks
LIMIT 1
