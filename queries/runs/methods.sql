-- Which method trains fastest, and in how much memory?
-- The paper's Tables III, IV and IX: one row per training run, those that ran out of memory too. Tokens/s are those of
-- all ranks, measured without profiler; a dash is a run that has none. Memory is what the framework's allocator handed
-- out on the device at its peak, on the rank where that was most; without an accelerator, what the process held.
--
-- Kind:     analysis
-- Scope:    runs
-- Columns:
--   model              VARCHAR  name of the model
--   stage              VARCHAR  pretrain, finetune or custom
--   method             VARCHAR  optimizations, in their canonical form
--   engine             VARCHAR  training engine
--   world_size         INTEGER  ranks
--   batch_size         INTEGER  sequences in a step of one data-parallel rank
--   mean_tokens_per_s  DOUBLE   tokens/s of all ranks, mean of the repeats
--   std_tokens_per_s   DOUBLE   sample standard deviation over the repeats; NULL for one repeat
--   peak_bytes         BIGINT   peak memory of the rank where it was highest, bytes
--   outcome            VARCHAR  ok, incomplete, oom, failed or unreadable
--   run                VARCHAR  name of the run's folder
-- Invariant: std_tokens_per_s IS NULL OR std_tokens_per_s >= 0
-- Note: analysis run has the reason of an outcome, the length of sequences and both kinds of memory

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
