-- Part of the device time to which exclusive busy time of a kind of work belongs.
-- Compute takes precedence over communication, and communication over copies. The rest of communication and copies is
-- exposed. Without any work, the device is idle.
--
-- Kind:   function
-- Access: private
-- Params:
--   kind  VARCHAR  compute, comm, or memcpy; NULL for idle time

CREATE OR REPLACE MACRO time_part(kind) AS
CASE kind
    WHEN 'compute' THEN 'compute'
    WHEN 'comm' THEN 'exposed_comm'
    WHEN 'memcpy' THEN 'exposed_memcpy'
    ELSE 'idle'
END;
