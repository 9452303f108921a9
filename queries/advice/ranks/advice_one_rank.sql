-- ZeRO or FSDP sharding on a single rank.
-- On one rank, sharding saves no memory and only adds hooks, gathers, and reductions. A gain is given only for FSDP
-- because its hooks are recorded as ranges.
--
-- Kind:     advice
-- Scope:    run
-- Input:    trace WHERE world_size = 1

WITH hook AS (
    SELECT count(*) AS range_count, sum(dur_ns)::BIGINT AS range_ns
    FROM annotations
    WHERE starts_with(name, 'FSDP::')
)

SELECT
    if(
        range_count > 0,
        format(
            'FSDP runs on one rank: {:,} hooks take {} of CPU time, and FSDP copies take {} of '
            || 'GPU time',
            range_count, in_ms(range_ns),
            (
                SELECT in_ms(coalesce(sum(dur_ns), 0))
                FROM attributed_events
                WHERE starts_with(op_name, 'fsdp::')
            )
        ),
        'DeepSpeed shards with ZeRO on one rank'
    ) AS what,
    'sharding on one rank' AS place,
    if(range_count > 0, 'range=FSDP::* remove', NULL) AS change,
    if(range_count > 0, range_ns, NULL) AS cost_ns,
    'Disable FSDP or ZeRO on one rank (tracekit collect: remove Z from --opt). Plain or '
    || 'DistributedDataParallel training needs no gathers and no sharding hooks'
    || if(range_count > 0, '', '. Record a second run to measure the effect') AS remedy,
    'tracekit sql TRACE "FROM annotations"' AS evidence
FROM hook
WHERE
    (SELECT max(world_size) = 1 AND count(DISTINCT rank) = 1 FROM trace)
    AND (
        range_count > 0
        OR EXISTS (FROM run WHERE engine = 'deepspeed' AND regexp_matches(opt, '\bZ[123]'))
        OR EXISTS (FROM event WHERE is_op(category) AND contains(name, 'PreBackwardFunction'))
    )
