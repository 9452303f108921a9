-- How is it said that something is on another level than usual?
--
-- Kind:   function
-- Access: private
-- Params:
--   levels  BIGINT   by how many levels it is higher
--   what    VARCHAR  what it is

CREATE OR REPLACE MACRO more_or_less(levels, what) AS
CASE WHEN levels > 0 THEN 'more ' || what WHEN levels < 0 THEN 'less ' || what END;
