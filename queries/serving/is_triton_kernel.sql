-- Is a kernel one of Triton?
-- It has the name of its Python function: in lower case, with neither the signature of C++ nor its mangling. Libraries
-- that ship machine code under such names (cuDNN, the fmha kernels of AMD) are left out, and so are kernels of class gemm
-- and conv, whose names are those of vendors as often.
--
-- Kind:     function
-- Access:   private
-- Params:
--   class  VARCHAR  as in table kernel_class
--   name   VARCHAR  name of the kernel

CREATE OR REPLACE MACRO is_triton_kernel(class, name) AS (
    is_fused(class)
    OR (
        NOT (is_gemm(class) OR is_conv(class) OR copy_of(class) = 'set')
        AND regexp_matches(name, '^[a-z_][a-z0-9_]*$')
        AND NOT regexp_matches(name, '^(?:cudnn|fmha|cutlass|flash_(?:fwd|bwd)|memset|memcpy)')
    )
);
