-- Communication in the backward pass that is not overlapped with compute.
-- A gain is given only for gradient reductions on GPUs. The backward pass needs the results of other collectives
-- immediately, and on a CPU, overlapped communication competes with compute for the same cores.
--
-- Kind:     advice
-- Scope:    run
-- Input:    collective_events

WITH exposed AS (
    SELECT
        class, wall_ns,
        device = 'cpu' AS is_cpu,
        collective_of(class) IN ('allreduce', 'reducescatter')
        AND NOT regexp_matches(coalesce(pg_desc, ''), '(?i)tensor|expert|context|sequence|pipe')
            AS is_gradient
    FROM collective_events
    WHERE phase = 'backward' AND wall_ns > 0
),

remedies (collective, remedy) AS (
    VALUES
    (
        'allreduce',
        'Start reductions during the backward pass: DistributedDataParallel(bucket_cap_mb=…, '
        || 'gradient_as_bucket_view=True), with parameters registered in the order of use'
    ),
    ('reducescatter', 'Use overlap_comm=True (DeepSpeed) or fully_shard per block (FSDP)'),
    (
        'allgather',
        'Prefetch: set_modules_to_backward_prefetch (FSDP), stage3_prefetch_bucket_size (DeepSpeed)'
    ),
    (
        'alltoall',
        'Alternate two micro-batches, so that one computes while the other sends its tokens'
    )
)

SELECT
    format(
        '{0} of communication is exposed, in {2} {1} collectives{3}{4}',
        in_ms(sum(e.wall_ns)), e.class, count(*),
        of_ranks(), CASE
            WHEN e.is_cpu THEN '. It competes with compute for the CPU cores'
            WHEN NOT e.is_gradient THEN '. The backward pass needs the results right away'
            ELSE ''
        END
    ) AS what,
    'exposed communication in backward' AS place,
    if(e.is_cpu OR NOT e.is_gradient, NULL, 'overlap') AS change,
    if(change IS NULL, mean_ns(sum(e.wall_ns)::BIGINT), sum(e.wall_ns)::BIGINT) AS cost_ns,
    any_value(r.remedy)
    || if(e.is_cpu OR NOT e.is_gradient, '. Record a second run to measure the effect', '')
        AS remedy,
    'tracekit query communication TRACE' AS evidence
FROM exposed AS e
INNER JOIN remedies AS r ON collective_of(e.class) = r.collective
GROUP BY e.class, e.is_cpu, e.is_gradient
ORDER BY cost_ns DESC, e.class, e.is_gradient
LIMIT 2
