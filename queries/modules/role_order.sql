-- In which order are the parts of a decoder shown?
-- That of a pass through it. A row of modules, in parentheses, has no place.
--
-- Kind:     function
-- Access:   private
-- Params:
--   role  VARCHAR  the part, as in role_work

CREATE OR REPLACE MACRO role_order(role) AS list_position(
    [
        'Embedding', 'QKV', 'RoPE', 'Bmm0', 'Softmax', 'Bmm1', 'Attention',
        'other in attention', 'Output', 'MLP', 'RMSNorm', 'Linear', 'other',
        'non-overlapping communication'
    ],
    role
);
