-- Training throughput and peak memory by method, one row per run.
-- Reproduces Tables III, IV, and IX of arXiv 2311.03687, including runs that ran out of memory. Throughput covers all
-- ranks and is measured without the profiler. Memory is the peak of the framework's allocator on the rank with the
-- highest peak, or process memory without an accelerator.
--
-- Kind:     analysis
-- Scope:    runs
-- Columns:
--   model       VARCHAR
--   stage       VARCHAR  pretrain, finetune, or custom
--   method      VARCHAR  optimizations (collect --opt), in canonical form
--   engine VARCHAR, world_size INTEGER, batch_size INTEGER, mean_tokens_per_s DOUBLE
--   std_tokens_per_s DOUBLE
--   peak_bytes  BIGINT   highest peak memory of a rank, bytes
--   outcome     VARCHAR  ok, incomplete, oom, failed, or unreadable
--   run         VARCHAR
-- Invariant: std_tokens_per_s IS NULL OR std_tokens_per_s >= 0
-- Note: analysis `run` shows the reason for an outcome, the sequence length, and both kinds of memory

SELECT
    model, stage, opt AS method, engine, world_size, batch_size,
    tokens_per_s_mean AS mean_tokens_per_s, tokens_per_s_std AS std_tokens_per_s,
    if(devices = [], peak_host_bytes, peak_device_allocated_bytes) AS peak_bytes,
    outcome, folder_name AS run
FROM run
WHERE stage IS DISTINCT FROM 'serve'
ORDER BY
    outcome = 'unreadable',
    list_position(['pretrain', 'finetune'], stage) NULLS LAST,
    max(parameter_count) OVER (PARTITION BY model) NULLS LAST,
    model, engine, world_size, batch_size,
    len(opt),
    opt, run_id
