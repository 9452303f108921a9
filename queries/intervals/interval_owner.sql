-- Start of the time that an interval owns, if the first of concurrent intervals owns the time.
-- An interval owns its time after the latest end of all previous intervals. Owned times are disjoint and add up to the
-- union.
--
-- Kind:     function
-- Params:
--   part      VARCHAR  partition key
--   start_ns  BIGINT   start, ns
--   end_ns    BIGINT   end, ns
--   id        BIGINT   tie-breaker for equal starts

CREATE OR REPLACE MACRO owned_from_ns(part, start_ns, end_ns, id) AS (
    greatest(start_ns, coalesce(latest_end_before_ns(part, start_ns, end_ns, id), start_ns))
);
