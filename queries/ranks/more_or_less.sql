-- "more X" or "less X", by the difference of two levels.
--
-- Kind:   function
-- Access: private
-- Params:
--   levels  BIGINT   difference of levels
--   what    VARCHAR  what is compared

CREATE OR REPLACE MACRO more_or_less(levels, what) AS
CASE WHEN levels > 0 THEN 'more ' || what WHEN levels < 0 THEN 'less ' || what END;
