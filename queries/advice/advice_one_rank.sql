-- ZeRO or FSDP sharding on a single rank.
-- On one rank, sharding saves no memory and only adds hooks, gathers, and reductions. A gain is given only for FSDP
-- because its hooks are recorded as ranges.
--
-- Kind:     advice
-- Scope:    run
-- Input:    trace WHERE world_size = 1

WITH ranks AS (
    SELECT count(DISTINCT rank) AS rank_count, max(world_size) AS world_size FROM trace
),

ranges AS (
    SELECT count(*) AS range_count, sum(dur_ns)::BIGINT AS range_ns
    FROM annotations
    WHERE starts_with(name, 'FSDP::')
),

work AS (
    SELECT sum(dur_ns)::BIGINT AS work_ns
    FROM attributed_events
    WHERE starts_with(op_name, 'fsdp::')
),

hooked AS (
    SELECT
        EXISTS (FROM run WHERE engine = 'deepspeed' AND regexp_matches(opt, '\bZ[123]'))
        OR EXISTS (FROM event WHERE is_op(category) AND contains(name, 'PreBackwardFunction'))
            AS is_deepspeed
)

SELECT
    if(
        range_count > 0,
        format(
            'FSDP runs on one rank: {:,} hooks take {} of CPU time, and FSDP copies take {} of '
            || 'GPU time',
            range_count, in_ms(range_ns), in_ms(coalesce(work_ns, 0))
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
FROM ranks, ranges, work, hooked
WHERE world_size = 1 AND rank_count = 1 AND (range_count > 0 OR is_deepspeed)
