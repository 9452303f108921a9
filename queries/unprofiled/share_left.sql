-- Percentage of a total that remains after a part.
-- NULL if either is unknown; 0 if the part exceeds the total.
--
-- Kind:     function
-- Access:   private

CREATE OR REPLACE MACRO share_left(part, whole) AS
CASE WHEN part >= 0 AND whole > 0 THEN greatest(100.0 * (1 - part / whole), 0) END;
