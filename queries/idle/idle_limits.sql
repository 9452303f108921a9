-- Time limits for the causes of idle gaps (`idle_gap`) and for host stalls (`host_pauses`).
--
-- Kind: function

-- Longest time for which finished work can still delay other work; a longer gap has another cause.
-- Also the upper limit of the usual launch delay.
CREATE OR REPLACE MACRO longest_hold_ns() AS 100000;

-- A launch call does not delay the work if it returns within this time after the start of the gap.
CREATE OR REPLACE MACRO short_call_ns() AS 5000;

-- A delay is usual up to this multiple of the median, if there are enough samples (next macro).
CREATE OR REPLACE MACRO usual_delay_factor() AS 5;

CREATE OR REPLACE MACRO usual_delay_count() AS 10;

-- If no thread of a process has an op, call, or Python function for this long, the activity of the
-- host is unknown. Python code between two ops rarely takes longer.
CREATE OR REPLACE MACRO unrecorded_limit_ns() AS 200000;

-- Shortest host stall. Shorter pauses between ops are common in Python.
CREATE OR REPLACE MACRO min_host_stall_ns() AS 2000000;

-- Shortest time of a thread outside ops that faster launches do not shorten. Gaps between launches
-- are much shorter, even with Python stacks.
CREATE OR REPLACE MACRO min_outside_ops_ns() AS 1000000;
