-- Text functions for advice: names, times, and locations.
-- chosen_name replaces characters that are special in --change by `?`; `*` still matches any text. in_ms formats
-- a time with three or more digits. at_rank adds the rank to a location. is_user_python recognizes Python calls outside torch and builtins.
-- count_of returns a number with its noun. of_ranks returns a text such as ` across 8 ranks` for a sum of several, and mean_ns the mean over the traces.
--
-- Kind:     function

CREATE OR REPLACE MACRO chosen_name(name) AS regexp_replace(name, '[\s\[\]?;\\]', '?', 'g');

CREATE OR REPLACE MACRO in_ms(ns) AS format(
    CASE WHEN ns >= 1e7 THEN '{:,.1f} ms' WHEN ns >= 1e6 THEN '{:.2f} ms' ELSE '{:.3f} ms' END,
    ns / 1e6
);

CREATE OR REPLACE MACRO count_of(number, noun) AS format(
    '{:,} {}{}', number::BIGINT, noun, if(number = 1, '', 's')
);

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
    SELECT
        if(
            count(*) > 1,
            format(
                ' across {} {}', count(*), if(count(*) = count(DISTINCT rank), 'ranks', 'traces')
            ),
            ''
        )
    FROM trace
);

CREATE OR REPLACE MACRO mean_ns(ns) AS (ns // (SELECT count(*) FROM trace))::BIGINT;
