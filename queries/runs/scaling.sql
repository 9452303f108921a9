-- Training throughput by number of ranks, with weak-scaling efficiency.
-- Reproduces Figure 4 of arXiv 2311.03687. Runs that differ only in the number of ranks and machines form a
-- configuration. The base is the run with the fewest ranks. If several runs have the fewest ranks, the base is their
-- mean, and these runs have no speedup. The batch size per rank is constant.
--
-- Kind:     analysis
-- Scope:    runs
-- Columns:
--   model            VARCHAR
--   stage            VARCHAR  pretrain, finetune, or custom
--   method           VARCHAR  optimizations (collect --opt), in canonical form
--   engine           VARCHAR
--   device           VARCHAR  accelerator models, or processor on a CPU-only machine
--   batch_size       INTEGER
--   sequence_length  INTEGER  tokens per sequence
--   world_size INTEGER, mean_tokens_per_s DOUBLE, std_tokens_per_s DOUBLE
--   base_world_size  INTEGER  number of ranks of the base
--   speedup          DOUBLE   throughput relative to the base; NULL for one of several base runs
--   efficiency_pct   DOUBLE   speedup divided by the increase in ranks, percent; above 100 if superlinear
--   outcome          VARCHAR  ok, incomplete, oom, or failed; only ok runs are compared
--   run              VARCHAR
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
        count(if(is_base, 1, NULL)) OVER configuration AS base_count,
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
