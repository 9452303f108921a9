-- Whether a kernel computes the activation of an MLP.
--
-- Kind:     function
-- Access:   private
-- Params:
--   class  VARCHAR  kernel class
--   name   VARCHAR  kernel name

CREATE OR REPLACE MACRO is_activation(name, class) AS (
    NOT is_gemm(class) AND regexp_matches(name, '(?i)silu|swiglu|gelu|act_and_mul')
);
