"""How many of Llama2-7B's layers fit into a device, by a rough count."""

LAYERS = 32

_WIDTH, _INNER, _HEADS, _VOCABULARY = 4096, 11008, 32, 32000
_LAYER_PARAMETERS = 4 * _WIDTH**2 + 3 * _WIDTH * _INNER + 2 * _WIDTH
_OTHER_PARAMETERS = 2 * _VOCABULARY * _WIDTH + _WIDTH
_SEQUENCE = 350
_USABLE_SHARE = 0.9
_FIXED_BYTES = 3e9  # the context, NCCL, workspaces, buckets


def layers_that_fit(opt: str, batch_size: int, memory_bytes: int) -> int:
    """Return how many layers fit; a step has `batch_size` sequences of 350 tokens."""
    methods = set(opt.split("+"))
    tokens = batch_size * _SEQUENCE
    per_parameter = _bytes_per_parameter(methods)
    # Hidden states and MLP activations saved for backward, and attention scores with copies.
    kept = tokens * _WIDTH * 60.0
    if "F" not in methods:
        kept += _HEADS * _SEQUENCE * tokens * 10.0
    once = tokens * _VOCABULARY * 14.0 + _OTHER_PARAMETERS * per_parameter + _FIXED_BYTES
    if "R" in methods:
        once += kept
        kept = tokens * _WIDTH * 2.0
    free = _USABLE_SHARE * memory_bytes - once
    return max(1, min(LAYERS, int(free / (_LAYER_PARAMETERS * per_parameter + kept))))


def _bytes_per_parameter(methods: set[str]) -> float:
    """Return the bytes on the device of a parameter, with its gradient and optimizer state."""
    if methods & {"L", "LFA", "PT"}:
        return 2.3  # frozen bf16, and adapters
    if methods & {"Q", "QL"}:
        return 2.0  # created in bf16 before packing
    if "O" in methods:
        return 4.5
    if methods & {"Z1", "Z2", "Z3"}:
        return 18.0  # bf16 weights and gradients, fp32 weights, gradients and two moments
    return 8.0  # bf16 weights, gradients and two moments
