-- To which part of a device's time does work belong that holds it, by its kind?
-- Where several kinds of work run, compute comes before communication, and that before copies: what is left of these two
-- is exposed. Where nothing runs, the device is idle.
--
-- Kind:   function
-- Access: private
-- Params:
--   kind  VARCHAR  compute, comm or memcpy; NULL where nothing runs

CREATE OR REPLACE MACRO time_part(kind) AS
CASE kind
    WHEN 'compute' THEN 'compute'
    WHEN 'comm' THEN 'exposed_comm'
    WHEN 'memcpy' THEN 'exposed_memcpy'
    ELSE 'idle'
END;
