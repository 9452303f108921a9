-- Which share of a whole does a part leave, 0 to 100?
-- NULL where either is not known; 0 where the part is as long or longer.
--
-- Kind:     function
-- Access:   private

CREATE OR REPLACE MACRO share_left(part, whole) AS
CASE WHEN part >= 0 AND whole > 0 THEN greatest(100.0 * (1 - part / whole), 0) END;
