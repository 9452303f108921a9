-- How fast was what a microbenchmark measured?
-- The one place where times of tracekit bench become rates: its analyses and the measured ceilings of devices
-- (table device_ceiling) both ask here. call_ns is the time of one call, usually median_ns. A rate is NULL where its
-- size or time is not known, or the time is 0. Operations of products are 2 M N K, as in macro op_costs; bus bandwidth
-- is that of macro collective. The rate of a memory is that of copies within it, each byte read and written, whose
-- source and target are far larger than any cache: 256 MiB each, where the largest cache of a device known today
-- (Infinity Cache of the MI300X) has 256 MiB.
--
-- Kind:     function
-- Access:   private
-- Params:
--   op             VARCHAR  what was measured: mm, d2d, all_reduce, …
--   m              BIGINT   rows of a product
--   n              BIGINT   its columns
--   k              BIGINT   length of its sums
--   batch          BIGINT   products in one call; NULL for one
--   message_bytes  BIGINT   bytes copied; of a collective the message, by the definition of bus bandwidth
--   group_size     INTEGER  ranks of a collective
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
