-- How does training throughput grow with the number of ranks?
-- The paper's Figure 4. Runs that differ only in their number of ranks (and of machines) are one configuration; its
-- base is the run with the fewest ranks, or the mean of several such. speedup is the throughput over that of the base;
-- efficiency_pct is the speedup over how many times more ranks there are. A run that alone is the base has 1 and 100;
-- of several such none has either, as what they differ by is not scaling. The batch of a rank stays the same: this is
-- weak scaling.
--
-- Kind:     analysis
-- Scope:    runs
-- Columns:
--   model              VARCHAR  name of the model
--   stage              VARCHAR  pretrain, finetune or custom
--   method             VARCHAR  optimizations, in their canonical form
--   engine             VARCHAR  training engine
--   device             VARCHAR  accelerators; the processor on a CPU-only machine
--   batch_size         INTEGER  sequences in a step of one data-parallel rank
--   sequence_length    INTEGER  tokens of a sequence
--   world_size         INTEGER  ranks
--   mean_tokens_per_s  DOUBLE   tokens/s of all ranks, mean of the repeats
--   std_tokens_per_s   DOUBLE   sample standard deviation over the repeats; NULL for one repeat
--   base_world_size    INTEGER  ranks of the base
--   speedup            DOUBLE   tokens/s over those of the base; NULL for one of several runs of the base
--   efficiency_pct     DOUBLE   speedup * base_world_size / world_size; above 100 if it scales better than linearly
--   outcome            VARCHAR  ok, incomplete, oom or failed; only ok runs with tokens/s are compared
--   run                VARCHAR  name of the run's folder
-- Invariant: speedup IS NULL OR (speedup > 0 AND base_world_size <= world_size)
-- Invariant: speedup IS NULL OR world_size > base_world_size OR (speedup = 1 AND efficiency_pct = 100)

WITH configured AS (
    SELECT
        *,
        coalesce(
            nullif(array_to_string(list_sort(list_distinct(devices)), ', '), ''), processor
        ) AS device,
        outcome = 'ok' AND tokens_per_s_mean > 0 AS is_compared
    FROM run
    WHERE stage <> 'serve'
),

based AS (
    SELECT *, min(world_size) FILTER (is_compared) OVER configuration AS base_world_size
    FROM configured
    WINDOW
        configuration AS (
            PARTITION BY
                stage, model, layer_count, opt, engine, precision, batch_size, sequence_length,
                tensor_size, pipeline_size, device
        )
),

compared AS (
    SELECT
        *,
        is_compared AND world_size = base_world_size AS is_base,
        count(*) FILTER (is_base) OVER configuration AS base_count,
        avg(tokens_per_s_mean) FILTER (is_base) OVER configuration AS base_tokens_per_s,
        if(is_compared AND (NOT is_base OR base_count = 1), tokens_per_s_mean, NULL)
        / base_tokens_per_s AS speedup
    FROM based
    WINDOW
        configuration AS (
            PARTITION BY
                stage, model, layer_count, opt, engine, precision, batch_size, sequence_length,
                tensor_size, pipeline_size, device
        )
)

SELECT
    model, stage, opt AS method, engine, device, batch_size, sequence_length, world_size,
    tokens_per_s_mean AS mean_tokens_per_s, tokens_per_s_std AS std_tokens_per_s, base_world_size,
    speedup,
    100.0 * speedup * base_world_size / world_size AS efficiency_pct,
    outcome, folder_name AS run
FROM compared
ORDER BY
    list_position(['pretrain', 'finetune'], stage) NULLS LAST,
    max(parameter_count) OVER (PARTITION BY model) NULLS LAST,
    model, engine, device,
    len(opt),
    opt, batch_size, sequence_length, world_size, run_id
