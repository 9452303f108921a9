-- Start, end, and length of the intersection of two intervals.
-- Disjoint intervals have an empty intersection at the start of the later one.
--
-- Kind:   function
-- Params:
--   start_ns  BIGINT  start of the first, ns
--   end_ns    BIGINT  end of the first, ns
--   from_ns   BIGINT  start of the second, ns
--   to_ns     BIGINT  end of the second, ns

CREATE OR REPLACE MACRO common_start_ns(start_ns, end_ns, from_ns, to_ns) AS
greatest(start_ns, from_ns);

CREATE OR REPLACE MACRO common_end_ns(start_ns, end_ns, from_ns, to_ns) AS
greatest(least(end_ns, to_ns), start_ns, from_ns);

CREATE OR REPLACE MACRO common_ns(start_ns, end_ns, from_ns, to_ns) AS
greatest(least(end_ns, to_ns) - greatest(start_ns, from_ns), 0);
