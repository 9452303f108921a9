-- Kind of parallelism of the process group with this name and rank; NULL if unknown.
--
-- Kind:   function
-- Access: private

CREATE OR REPLACE MACRO dimension_of(name_of_group, of_rank) AS (
    SELECT min(dimension) FROM parallel_members WHERE pg_name = name_of_group AND rank = of_rank
);
