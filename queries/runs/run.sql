-- Runs with configuration, machine, results, and outcome.
-- Unreadable manifests are included with the outcome unreadable.
--
-- Kind:     analysis
-- Scope:    runs
-- Columns:
--   run VARCHAR, run_id VARCHAR
--   stage                      VARCHAR    pretrain, finetune, serve, bench, or custom
--   outcome                    VARCHAR    ok, incomplete, oom, failed, or unreadable
--   reason                     VARCHAR    why the outcome is not ok
--   model                      VARCHAR
--   parameter_count            BIGINT     number of parameters
--   trainable_parameter_count  BIGINT     number of trained parameters
--   opt                        VARCHAR    optimizations (collect --opt), in canonical form
--   engine                     VARCHAR
--   precision                  VARCHAR    compute data type
--   attention_backend          VARCHAR    attention implementation
--   world_size INTEGER, batch_size INTEGER
--   sequence_length            INTEGER    tokens per sequence
--   repeat_count               BIGINT     number of measured repeats
--   mean_tokens_per_s DOUBLE, std_tokens_per_s DOUBLE
--   mean_step_ns               DOUBLE     mean step measured on rank 0 without ranges or the profiler, ns
--   unprofiled_step_ns         BIGINT     median step measured on rank 0 without ranges or the profiler, ns
--   ranges_step_ns             BIGINT     median step with ranges, ns
--   profiled_step_ns           BIGINT     median step with ranges and profiler, ns
--   profiled_step_pct          DOUBLE     profiled_step_ns / unprofiled_step_ns, percent
--   peak_device_bytes          BIGINT     highest peak of allocated device memory of a rank, bytes
--   peak_reserved_bytes        BIGINT     highest peak of reserved device memory of a rank, bytes
--   peak_host_bytes            BIGINT     highest peak of host memory of a rank, bytes
--   devices                    VARCHAR[]  accelerator models; empty on a CPU-only machine
--   processor                  VARCHAR    processor model
--   core_count                 INTEGER    number of cores
--   request_count              BIGINT     number of readable requests of a serving run
--   rejected_count             BIGINT     number of unreadable lines in requests.jsonl and benchmarks.jsonl (see table rejected)
--   trace_count                BIGINT     number of trace files named in run.json
--   notes                      VARCHAR[]  notes of the run
-- Invariant: outcome IS NOT NULL AND (outcome = 'ok' OR reason IS NOT NULL OR stage IS NOT NULL)
-- Invariant: peak_reserved_bytes IS NULL OR peak_device_bytes IS NULL OR peak_device_bytes <= peak_reserved_bytes

SELECT
    r.folder_name AS run, r.run_id, r.stage, r.outcome, r.reason, r.model, r.parameter_count,
    r.trainable_parameter_count, r.opt, r.engine, r.precision, r.attention_backend, r.world_size,
    r.batch_size, r.sequence_length,
    s.repeat_count,
    r.tokens_per_s_mean AS mean_tokens_per_s, r.tokens_per_s_std AS std_tokens_per_s,
    s.mean_ns AS mean_step_ns, s.median_ns AS unprofiled_step_ns,
    r.ranges_step_ns, r.profiled_step_ns,
    100.0 * r.profiled_step_ns / nullif(s.median_ns, 0) AS profiled_step_pct,
    r.peak_device_allocated_bytes AS peak_device_bytes,
    r.peak_device_reserved_bytes AS peak_reserved_bytes, r.peak_host_bytes, r.devices, r.processor,
    r.core_count, r.request_count, r.rejected_count,
    coalesce(len(r.traces), 0) AS trace_count,
    coalesce(r.notes, []) AS notes
FROM run AS r
LEFT JOIN run_step() AS s USING (run_id)
ORDER BY r.run_id
