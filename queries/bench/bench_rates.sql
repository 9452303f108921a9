-- Functions that turn benchmark times into rates.
-- Only copies of at least 256 MiB have a memory rate. Their source and target together are at least twice the largest
-- known cache (256 MiB, MI300X Infinity Cache).
--
-- Kind:     function
-- Access:   private
-- Params:
--   op             VARCHAR  measured op: mm, d2d, all_reduce, …
--   m              BIGINT   rows of the output
--   n              BIGINT   columns of the output
--   k              BIGINT   inner dimension
--   batch          BIGINT   GEMMs per call; NULL for one
--   message_bytes  BIGINT   bytes copied, or message size of a collective
--   group_size     INTEGER  number of ranks
--   call_ns        DOUBLE   time of one call, ns

CREATE OR REPLACE MACRO bench_flop_per_s(m, n, k, batch, call_ns) AS
2e9 * m * n * k * coalesce(batch, 1) / nullif(call_ns, 0);

CREATE OR REPLACE MACRO bench_bytes_per_s(message_bytes, call_ns) AS
1e9 * message_bytes / nullif(call_ns, 0);

CREATE OR REPLACE MACRO bench_bus_bytes_per_s(op, group_size, message_bytes, call_ns) AS
wire_factor(named_collective(op), group_size) * (1e9 * message_bytes / nullif(call_ns, 0));

CREATE OR REPLACE MACRO bench_memory_bytes_per_s(op, message_bytes, call_ns) AS
CASE
    WHEN op IN ('d2d', 'h2h') AND message_bytes >= 256 * 1024 * 1024
        THEN 2e9 * message_bytes / nullif(call_ns, 0)
END;
