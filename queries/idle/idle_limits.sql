-- Which lengths decide about the cause of a gap?
-- Table idle_gap decides by them, and its header says how.
--
-- Kind: function

-- What ended longer ago than this keeps no work waiting: a longer gap behind it has another cause. The usual delay of
-- work behind its launch is no longer either, whatever the device shows.
CREATE OR REPLACE MACRO longest_hold_ns() AS 100000;

-- A launch call that returned so early in a gap was no obstacle in itself.
CREATE OR REPLACE MACRO short_call_ns() AS 5000;

-- So many times the median of the delays of a device is still usual, if it shows so many of them.
CREATE OR REPLACE MACRO usual_delay_factor() AS 5;

CREATE OR REPLACE MACRO usual_delay_count() AS 10;

-- Where no thread of a process has an op, call or Python function for so long, nothing tells what the host did. Python
-- between two ops takes less, with rare exceptions.
CREATE OR REPLACE MACRO unrecorded_limit_ns() AS 200000;
