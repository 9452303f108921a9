-- What were these runs, on what machine, and how did they end?
-- One row per run.json, those that could not be read included: their outcome is unreadable.
--
-- Kind:     analysis
-- Scope:    runs
-- Columns:
--   run                 VARCHAR    name of the run's folder
--   run_id              VARCHAR    as in table run
--   stage               VARCHAR    pretrain, finetune, serve, bench or custom
--   outcome             VARCHAR    ok, incomplete, oom, failed or unreadable
--   reason              VARCHAR    why the outcome is not ok
--   model               VARCHAR    name of the model
--   parameter_count     BIGINT     its parameters
--   trainable_parameter_count  BIGINT  of these, trained
--   opt                 VARCHAR    optimizations, in their canonical form
--   engine              VARCHAR    training or serving engine
--   precision           VARCHAR    number type of the compute
--   attention_backend   VARCHAR    which attention ran
--   world_size          INTEGER    ranks
--   batch_size          INTEGER    sequences in a step of one data-parallel rank
--   sequence_length     INTEGER    tokens of a sequence
--   repeat_count        BIGINT     repeats that were measured
--   mean_tokens_per_s   DOUBLE     tokens/s of all ranks, mean of the repeats
--   std_tokens_per_s    DOUBLE     sample standard deviation over the repeats; NULL for one
--   mean_step_ns        DOUBLE     mean measured step on rank 0, without ranges and profiler, ns
--   plain_step_ns       BIGINT     median measured step, the same
--   ranges_step_ns      BIGINT     median step with ranges, ns
--   profiled_step_ns    BIGINT     median step with ranges and profiler, ns
--   profiled_step_pct   DOUBLE     profiled_step_ns of plain_step_ns, 100 and more
--   peak_device_bytes   BIGINT     device memory of the rank that allocated most, at its peak, bytes
--   peak_reserved_bytes  BIGINT    of the rank that reserved most, bytes
--   peak_host_bytes     BIGINT     host memory of the rank that held most, at its peak, bytes
--   devices             VARCHAR[]  accelerators by name; empty on a CPU-only machine
--   processor           VARCHAR    processor
--   core_count          INTEGER    cores
--   request_count       BIGINT     requests that were read, of a serving run
--   rejected_count      BIGINT     lines of requests.jsonl and benchmarks.jsonl that could not be read; see table rejected
--   trace_count         BIGINT     trace files that run.json names
--   notes               VARCHAR[]  what else is to be said
-- Invariant: outcome IS NOT NULL AND (outcome = 'ok' OR reason IS NOT NULL OR stage IS NOT NULL)
-- Invariant: peak_reserved_bytes IS NULL OR peak_device_bytes IS NULL OR peak_device_bytes <= peak_reserved_bytes

SELECT
    r.folder_name AS run, r.run_id, r.stage, r.outcome, r.reason, r.model, r.parameter_count,
    r.trainable_parameter_count, r.opt, r.engine, r.precision, r.attention_backend, r.world_size,
    r.batch_size, r.sequence_length,
    s.repeat_count,
    r.tokens_per_s_mean AS mean_tokens_per_s, r.tokens_per_s_std AS std_tokens_per_s,
    s.mean_ns AS mean_step_ns, s.plain_ns AS plain_step_ns,
    r.ranges_step_ns, r.profiled_step_ns,
    100.0 * r.profiled_step_ns / nullif(s.plain_ns, 0) AS profiled_step_pct,
    r.peak_device_allocated_bytes AS peak_device_bytes,
    r.peak_device_reserved_bytes AS peak_reserved_bytes, r.peak_host_bytes, r.devices, r.processor,
    r.core_count, r.request_count, r.rejected_count,
    coalesce(len(r.traces), 0) AS trace_count,
    coalesce(r.notes, []) AS notes
FROM run AS r
LEFT JOIN run_step() AS s USING (run_id)
ORDER BY r.run_id
