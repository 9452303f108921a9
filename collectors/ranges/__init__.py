"""Named ranges around model calls.

The names are `tk/step/<n>`, `tk/phase/<name>`, `tk/part/<name>`, and
`tk/module/<forward|backward|recompute>/<path>#<Class>`.
"""

from .modules import ModuleRanges
from .open_ranges import (
    Phase,
    Range,
    is_backward,
    open_count,
    part,
    phase,
    step,
    step_end,
    use_nvtx,
)

__all__ = [
    "ModuleRanges",
    "Phase",
    "Range",
    "is_backward",
    "open_count",
    "part",
    "phase",
    "step",
    "step_end",
    "use_nvtx",
]
