-- Text functions for advice: names, times, and locations.
-- chosen_name replaces characters that are special in `--change` with `?`, except `*`. in_ms formats a time. count_of
-- formats a number with its noun. at_rank adds the rank to a location, and rank_term limits a change to it if there are
-- several traces. is_user_python recognizes Python calls outside torch and builtins. of_ranks returns ` across 8 ranks` if there are several, and mean_ns the mean over all traces.
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

CREATE OR REPLACE MACRO rank_term(rank) AS if(
    (SELECT count(*) FROM trace) > 1, coalesce(' rank=' || rank, ''), ''
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
