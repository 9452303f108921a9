-- Functions for tensor sizes and types.
-- Inputs are shapes and types as torch.profiler records them with record_shapes (Input Dims, Input type), and type
-- names of NCCL. The shape of a tensor list is the list of the shapes of its tensors.
--
-- Kind:   function
-- Params:
--   dims    BIGINT[]   shape of a tensor
--   shapes  VARCHAR[]  shapes as text: [2,350,256], or [[256],[256]] for a tensor list
--   type    VARCHAR    type name of PyTorch (c10::BFloat16) or NCCL (BFloat16)
--   dtype   VARCHAR    type name of tracekit (bf16)

CREATE OR REPLACE MACRO shape_nelems(dims) AS
list_product([1] || dims)::BIGINT;

CREATE OR REPLACE MACRO shapes_nelems(shapes) AS
list_transform(
    shapes,
    LAMBDA shape: list_sum(
        list_transform(
            if(
                starts_with(shape, '[['),
                try_cast(shape AS BIGINT[][]),
                [try_cast(shape AS BIGINT[])]
            ),
            LAMBDA dims: shape_nelems(dims)
        )
    )::BIGINT
);

-- Two parallel lists are faster to plan than a CASE with one branch per type.
CREATE OR REPLACE MACRO dtype_of(type) AS
[
    'bf16',
    'fp16',
    'fp32',
    'fp64',
    'fp8',
    'fp8',
    'fp8',
    'fp8',
    'int8',
    'int8',
    'uint8',
    'uint8',
    'int16',
    'int16',
    'int32', 'int64', 'int64', 'bool', 'complex64', 'complex64', 'complex128', 'complex128'
][
    list_position(
        [
            'bfloat16',
            'half',
            'float',
            'double',
            'float8_e4m3fn',
            'float8_e5m2',
            'float8_e4m3fnuz',
            'float8_e5m2fnuz', 'signed char', 'char', 'unsigned char', 'byte', 'short int', 'short',
            'int',
            'long int',
            'long',
            'bool',
            'complex<float>',
            'complexfloat',
            'complex<double>',
            'complexdouble'
        ],
        replace(lower(type), 'c10::', '')
    )
];

CREATE OR REPLACE MACRO dtype_bytes(dtype) AS
CASE
    WHEN dtype IN ('fp8', 'int8', 'uint8', 'bool') THEN 1
    WHEN dtype IN ('bf16', 'fp16', 'int16') THEN 2
    WHEN dtype IN ('fp32', 'int32') THEN 4
    WHEN dtype IN ('fp64', 'int64', 'complex64') THEN 8
    WHEN dtype = 'complex128' THEN 16
END;
