"""Hides tracekit's modules from a recorded program until the program imports tracekit.

Programs may inspect `sys.modules`, as pytest does to rewrite assertions. So the modules are in
`sys.modules` only while they import each other, or once the program has imported tracekit.
"""

import sys

# Attribute of `sys` with tracekit's hidden modules; `tracekit/__init__.py` restores them from it.
_HIDDEN = "_tracekit_modules"


class VisibleModules:
    def __enter__(self) -> None:
        sys.modules.update(sys.__dict__.get(_HIDDEN, {}))

    def __exit__(self, *_: object) -> None:
        if _HIDDEN in sys.__dict__:  # otherwise, the program has imported tracekit
            hide_modules()


def hide_modules() -> None:
    names = [name for name in sys.modules if name.partition(".")[0] == "tracekit"]
    sys.__dict__[_HIDDEN] = {name: sys.modules.pop(name) for name in names}
