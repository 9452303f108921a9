-- Reference time from the start of an op to the start of its first nested op.
-- The reference is the 10th percentile over 38 recordings on one host (torch 2.11 with CUDA and shapes). Contains pairs
-- with at least 200 samples and a median below 4 µs.
--
-- Kind:     table
-- Created:  on demand
-- Access:   private
-- Columns:
--   name VARCHAR, inner_name VARCHAR, quick_ns BIGINT

SELECT name, inner_name, quick_ns::BIGINT AS quick_ns
FROM (
    VALUES
    ('BmmBackward0', 'aten::transpose', 1932),
    ('CatBackward0', 'aten::narrow', 1062),
    ('MeanBackward1', 'aten::expand', 1793),
    ('MmBackward0', 'aten::t', 1690),
    ('MulBackward0', 'aten::mul', 1433),
    ('NegBackward0', 'aten::neg', 792),
    ('PowBackward0', 'aten::pow', 1361),
    ('ReshapeAliasBackward0', 'aten::reshape', 1088),
    ('RsqrtBackward0', 'aten::pow', 2035),
    ('SiluBackward0', 'aten::silu_backward', 2045),
    ('SliceBackward0', 'aten::slice_backward', 1111),
    ('TBackward0', 'aten::t', 701),
    ('ToCopyBackward0', 'aten::to', 1064),
    ('TransposeBackward0', 'aten::transpose', 800),
    ('UnsafeViewBackward0', 'aten::reshape', 1017),
    ('ViewBackward0', 'aten::reshape', 1016),
    ('aten::_cudnn_attention_backward', 'aten::empty_like', 2333),
    ('aten::_cudnn_attention_forward', 'aten::empty', 1802),
    ('aten::_to_copy', 'aten::empty_strided', 1635),
    ('aten::abs', 'aten::empty', 1252), ('aten::abs', 'aten::resize_', 1944),
    ('aten::add_', 'aten::to', 1665),
    ('aten::arange', 'aten::empty', 1084), ('aten::arange', 'aten::resize_', 1456),
    ('aten::clone', 'aten::empty_like', 1274),
    ('aten::contiguous', 'aten::clone', 1259),
    ('aten::detach', 'detach', 496),
    ('aten::div', 'aten::div', 2028),
    ('aten::empty_like', 'aten::empty', 915), ('aten::empty_like', 'aten::empty_strided', 967),
    ('aten::expand', 'aten::as_strided', 1845),
    ('aten::item', 'aten::_local_scalar_dense', 572),
    ('aten::linear', 'aten::t', 545),
    ('aten::matmul', 'aten::expand', 1786), ('aten::matmul', 'aten::reshape', 916),
    ('aten::mul', 'aten::mul', 1585),
    ('aten::narrow', 'aten::slice', 751),
    ('aten::pow', 'aten::result_type', 915),
    ('aten::reshape', 'aten::clone', 1360), ('aten::reshape', 'aten::view', 657),
    ('aten::slice', 'aten::as_strided', 1087),
    ('aten::slice_backward', 'aten::zeros', 991),
    ('aten::softmax', 'aten::to', 2168),
    ('aten::t', 'aten::transpose', 656),
    ('aten::to', 'aten::_to_copy', 822),
    ('aten::transpose', 'aten::as_strided', 955),
    ('aten::unsqueeze', 'aten::as_strided', 1094),
    ('aten::view_as', 'aten::view', 797),
    ('aten::zero_', 'aten::fill_', 925),
    ('aten::zeros', 'aten::empty', 828),
    ('torch::autograd::AccumulateGrad', 'aten::detach', 882),
    ('torch::distributed::reducer::mul_out', 'aten::mul', 1259)
) AS v (name, inner_name, quick_ns)
UNION ALL
-- The autograd engine's op evaluate_function contains the node in its name.
SELECT 'autograd::engine::evaluate_function: ' || inner_name, inner_name, quick_ns::BIGINT
FROM (
    VALUES
    ('AddBackward0', 1336), ('BmmBackward0', 1334), ('CatBackward0', 1265),
    ('CloneBackward0', 1344), ('ExpandBackward0', 1286), ('MeanBackward1', 1278),
    ('MmBackward0', 1232), ('MulBackward0', 1265), ('NegBackward0', 1255), ('PowBackward0', 1282),
    ('ReshapeAliasBackward0', 1525), ('RsqrtBackward0', 1340),
    ('ScaledDotProductCudnnAttentionBackward0', 1293), ('SiluBackward0', 1194),
    ('SliceBackward0', 1275), ('SoftmaxBackward0', 1495), ('TBackward0', 1243),
    ('ToCopyBackward0', 1311), ('TransposeBackward0', 1316), ('UnsafeViewBackward0', 1330),
    ('ViewBackward0', 1279), ('torch::autograd::AccumulateGrad', 1671)
) AS v (inner_name, quick_ns)
