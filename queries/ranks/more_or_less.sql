-- Text "more X" or "less X" for a difference of two levels (rank_groups).
--
-- Kind:   function
-- Access: private
-- Params:
--   levels  BIGINT   difference of levels
--   what    VARCHAR  name of the compared quantity

CREATE OR REPLACE MACRO more_or_less(levels, what) AS
CASE WHEN levels > 0 THEN 'more ' || what WHEN levels < 0 THEN 'less ' || what END;
