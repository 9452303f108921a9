-- Time limits for the causes of idle gaps; see `idle_gap`.
--
-- Kind: function

-- Work that ended longer ago than this delays nothing, so a longer gap needs another cause. Also
-- the upper limit of the usual launch delay.
CREATE OR REPLACE MACRO longest_hold_ns() AS 100000;

-- A launch call that returned this early in a gap was no obstacle.
CREATE OR REPLACE MACRO short_call_ns() AS 5000;

-- Delays up to this factor times the median are usual, given at least this many samples on the
-- device.
CREATE OR REPLACE MACRO usual_delay_factor() AS 5;

CREATE OR REPLACE MACRO usual_delay_count() AS 10;

-- If no thread of a process has an op, call, or Python function for this long, the host's activity
-- is unknown. Python between two ops rarely takes longer.
CREATE OR REPLACE MACRO unrecorded_limit_ns() AS 200000;
