-- Share of a total that remains without a part, percent.
-- NULL if the part or the total is unknown; 0 if the part exceeds the total.
--
-- Kind:     function
-- Access:   private

CREATE OR REPLACE MACRO share_left(part, whole) AS
CASE WHEN part >= 0 AND whole > 0 THEN greatest(100.0 * (1 - part / whole), 0) END;
