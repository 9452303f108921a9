-- Which part of an interval belongs to it alone, when of several that run at once the first one owns the time?
-- owned_from_ns is a window expression. The owner of a moment is the running interval that started first, so what
-- an interval owns is the one piece behind the latest end of all that started before it. The pieces of a partition
-- are disjoint and add up to the length of its union.
--
-- Kind:     function
-- Params:
--   part      VARCHAR  intervals of different parts do not compete
--   start_ns  BIGINT   start, ns
--   end_ns    BIGINT   end, ns
--   id        BIGINT   decides between equal starts

CREATE OR REPLACE MACRO owned_from_ns(part, start_ns, end_ns, id) AS (
    greatest(start_ns, coalesce(latest_end_before_ns(part, start_ns, end_ns, id), start_ns))
);
