-- Which phase of training does the name of a kernel tell?
-- Names as PyTorch, cuDNN, FlashAttention, CUTLASS, Triton and their kin write them: backward, bwd, bprop, dgrad, wgrad;
-- forward, fwd, fprop. Kernels of class optimizer are the optimizer's, and so are those of torch's foreach functions
-- (multi_tensor_apply). NULL where a name tells nothing, as those of most matrix products and element-wise kernels.
--
-- Kind:   function
-- Access: private
-- Params:
--   name   VARCHAR  name of the kernel
--   class  VARCHAR  its class, as in table kernel_class

CREATE OR REPLACE MACRO kernel_phase_name(name, class) AS
CASE
    WHEN is_optimizer(class) OR contains(name, 'multi_tensor_apply') THEN 'optimizer'
    WHEN regexp_matches(
        name,
        '(?i)backward|bprop|dgrad|wgrad|grad_?(input|weight|bias)|(^|[^a-z])bwd([^a-z]|$)|bn_bw_'
    ) THEN 'backward'
    WHEN regexp_matches(name, '(?i)forward|fprop|(^|[^a-z])fwd([^a-z]|$)|bn_fw_') THEN 'forward'
END;
