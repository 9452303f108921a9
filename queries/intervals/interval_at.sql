-- Which piece of the union of another relation is open at each moment?
-- interval_at('moments', 'cover') returns one row for each moment that is covered: start_ns <= at_ns < end_ns.
--
-- Kind:     macro
-- Requires: interval_union
-- Params:
--   moments  VARCHAR  name of a relation with part, id, at_ns
--   cover    VARCHAR  name of a relation with part, start_ns, end_ns; may overlap itself
-- Columns:
--   id        BIGINT  of the moment
--   start_ns  BIGINT  start of the piece that is open, ns
--   end_ns    BIGINT  its end, ns

CREATE OR REPLACE MACRO interval_at(moments, cover) AS TABLE (
    SELECT
        moment.id,
        covered.start_ns,
        covered.end_ns
    FROM query_table(moments) AS moment
    ASOF INNER JOIN interval_union(cover) AS covered
        ON moment.part = covered.part AND moment.at_ns >= covered.start_ns
    WHERE moment.at_ns < covered.end_ns
);
