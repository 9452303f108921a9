-- Display order of decoder parts; NULL for rows such as (optimizer).
--
-- Kind:     function
-- Access:   private
-- Params:
--   role  VARCHAR  part, as in role_work

CREATE OR REPLACE MACRO role_order(role) AS list_position(
    [
        'Embedding', 'QKV', 'RoPE', 'Bmm0', 'Softmax', 'Bmm1', 'Attention',
        'other in attention', 'Output', 'MLP', 'RMSNorm', 'Linear', 'other',
        'non-overlapping communication'
    ],
    role
);
