-- In which order are phases shown?
-- That of a step, then those of serving; anything else, such as (all), has no place and comes last or first.
--
-- Kind:   function
-- Params:
--   phase  VARCHAR  the phase, as in attribution

CREATE OR REPLACE MACRO phase_order(phase) AS list_position(
    [
        'data', 'generation', 'reward', 'forward', 'recompute', 'backward', 'optimizer',
        'weight_sync', 'evaluation',
        'prefill', 'mixed', 'decode', 'verify',
        'other'
    ],
    phase
);
