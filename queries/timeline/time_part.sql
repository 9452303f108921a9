-- Part of the device window (compute, exposed_comm, exposed_memcpy, or idle) for a kind of work.
-- wall_ns of communication and copies is exposed time, because concurrent compute takes precedence.
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
