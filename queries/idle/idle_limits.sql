-- Time limits for the causes of idle gaps (`idle_gap`) and for host stalls (`host_pauses`).
--
-- Kind: function

-- Work that ended longer ago than this delays nothing, so a longer gap needs another cause. The
-- usual launch delay is also limited to this.
CREATE OR REPLACE MACRO longest_hold_ns() AS 100000;

-- A launch call that returns within this time after the start of a gap does not delay the work.
CREATE OR REPLACE MACRO short_call_ns() AS 5000;

-- A delay up to this factor times the median is usual, if the device has at least this many
-- samples.
CREATE OR REPLACE MACRO usual_delay_factor() AS 5;

CREATE OR REPLACE MACRO usual_delay_count() AS 10;

-- If no thread of a process has an op, call, or Python function for this long, the activity of the
-- host is unknown. Python code between two ops rarely takes longer.
CREATE OR REPLACE MACRO unrecorded_limit_ns() AS 200000;

-- Shortest host stall. Shorter pauses between ops are common in Python.
CREATE OR REPLACE MACRO min_host_stall_ns() AS 2000000;
