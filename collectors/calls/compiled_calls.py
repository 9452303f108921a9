"""Sees where compiled functions are called, for loops of which nothing else is seen.

What `torch.compile` returns asks a function of Dynamo's at each call what is to be done
(`_callback_from_stance`, a private name). While somebody listens, ours is asked instead, and asks
that one. It runs before the compiled code does, so nothing of ours is compiled.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

_MODULE = "torch._dynamo.eval_frame"
_NAME = "_callback_from_stance"
_CALL = "compile_wrapper"

_undo: Callable[[], None] | None = None


def listen(act: Callable[[], None]) -> bool:
    """Call a function whenever a compiled one is called, outside of any other.

    Returns:
        Whether that can be seen in this torch.
    """
    global _undo
    module = sys.modules.get(_MODULE)
    original = vars(module).get(_NAME) if module is not None else None
    if original is None or _undo is not None:
        return False

    def ask(*args: Any, **kwargs: Any) -> Any:
        caller = sys._getframe(1)
        # Below a compiled function others are called; what Dynamo did before tells them apart.
        if caller.f_code.co_name == _CALL and caller.f_locals.get("prior", True) is None:
            act()
        return original(*args, **kwargs)

    def undo() -> None:
        if vars(module).get(_NAME) is ask:
            setattr(module, _NAME, original)

    setattr(module, _NAME, ask)
    _undo = undo
    return True


def unlisten() -> None:
    """Put everything back."""
    global _undo
    if _undo is not None:
        _undo()
        _undo = None
