-- Display order of phases: training, then serving; NULL for anything else.
--
-- Kind:   function
-- Params:
--   phase  VARCHAR  phase, as in attribution

CREATE OR REPLACE MACRO phase_order(phase) AS list_position(
    [
        'data', 'generation', 'reward', 'forward', 'recompute', 'backward', 'optimizer',
        'weight_sync', 'evaluation',
        'prefill', 'mixed', 'decode', 'verify',
        'other'
    ],
    phase
);
