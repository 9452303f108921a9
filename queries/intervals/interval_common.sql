-- Which part do two intervals have in common?
-- common_start_ns is where it starts, common_end_ns where it ends, common_ns how long it is. Of intervals that have nothing in
-- common it starts and ends at the start of the later one, and is 0 long.
--
-- Kind:   function
-- Params:
--   start_ns  BIGINT  start of the one, ns
--   end_ns    BIGINT  its end, ns
--   from_ns   BIGINT  start of the other, ns
--   to_ns     BIGINT  its end, ns

CREATE OR REPLACE MACRO common_start_ns(start_ns, end_ns, from_ns, to_ns) AS
greatest(start_ns, from_ns);

CREATE OR REPLACE MACRO common_end_ns(start_ns, end_ns, from_ns, to_ns) AS
greatest(least(end_ns, to_ns), start_ns, from_ns);

CREATE OR REPLACE MACRO common_ns(start_ns, end_ns, from_ns, to_ns) AS
greatest(least(end_ns, to_ns) - greatest(start_ns, from_ns), 0);
