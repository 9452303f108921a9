-- What does a step take where many follow each other?
-- The mean of ten that are queued behind each other, the first on an idle device, as a loop is timed. Behind the last of fewer
-- steps come as many as are missing, each as long as those that are there are apart: their ends, or where three or
-- more are there and the host is the slower one, their starts.
--
-- Kind:     function
-- Access:   private

CREATE OR REPLACE MACRO steady_step(begin_ns, start_ns, end_ns) AS
CASE
    WHEN len(end_ns) = 1 OR len(end_ns) >= 10
        THEN (list_max(end_ns) - begin_ns) / len(end_ns)
    ELSE
        (
            list_max(end_ns) - begin_ns
            + (10 - len(end_ns))
            * greatest(
                end_ns[-1] - end_ns[1], if(len(start_ns) > 2, start_ns[-1] - start_ns[1], 0)
            )
            / (len(end_ns) - 1)
        )
        / 10
END;
