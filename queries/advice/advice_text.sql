-- How are names, times and places written in advice?
-- chosen_name(name): the name as a change chooses it; what would be read as a pattern, or would end a term, is any one
-- character, and * stays any text. in_ms(ns): a time in ms. at_rank(rank, place): the place, with its rank where it is known.
-- is_user_python(category, name): a call of a Python function that is neither torch's own nor built in. of_ranks(): whose
-- times are summed up, where there are several. mean_ns(ns): their mean, which a window is compared with.
--
-- Kind:     function

CREATE OR REPLACE MACRO chosen_name(name) AS regexp_replace(name, '[\s\[\]?;\\]', '?', 'g');

CREATE OR REPLACE MACRO in_ms(ns) AS format('{:,.3f} ms', ns / 1e6);

CREATE OR REPLACE MACRO at_rank(rank, place) AS if(
    rank IS NULL, place, format('rank {}: {}', rank, place)
);

CREATE OR REPLACE MACRO is_user_python(category, name) AS (
    is_python_call(category)
    AND NOT starts_with(name, '<built-in')
    AND NOT starts_with(name, 'nn.Module: ')
    AND NOT starts_with(name, 'torch/')
    AND NOT contains(name, '/torch/')
);

CREATE OR REPLACE MACRO of_ranks() AS (
    SELECT if(count(*) > 1, format(' of {} ranks', count(*)), '') FROM trace
);

CREATE OR REPLACE MACRO mean_ns(ns) AS (ns // (SELECT count(*) FROM trace))::BIGINT;
