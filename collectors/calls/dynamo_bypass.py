"""Hides tracekit's code from Dynamo (`torch.compile`).

Dynamo inspects every Python frame below a compiled function. Dynamo would compile a hook, count it,
guard on it, and recompile once it is removed. Two mechanisms hide hooks:

- `unseen` marks the code of a function, so that Dynamo runs its frame unchanged. Functions that it
  calls are still inspected.
- After `set_eval_frame(None)`, Dynamo inspects nothing until the previous callback is restored.
Only tracekit's own code runs in between.

Dynamo inlines the calls of a traced function. A wrapper must therefore first check
`torch.compiler.is_compiling()`, which is true during tracing, and then only call the original
function. The graph is then unchanged.

Both mechanisms use private functions (`torch._C._dynamo.eval_frame`), which exist up to at least
torch 2.13. If they are missing, `IS_POSSIBLE` is False, and tracekit must not patch the program.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import CodeType
from typing import Any, TypeVar

import torch
from torch._C._dynamo import eval_frame as _eval_frame
from torch.fx import _symbolic_trace
from torch.overrides import _get_current_function_mode_stack as _function_modes

_F = TypeVar("_F", bound=Callable[..., Any])


def _marker() -> Callable[[Any], None] | None:
    skip = getattr(_eval_frame, "skip_code", None)  # up to torch 2.6
    if skip is not None:
        return skip
    try:
        strategy = _eval_frame._FrameExecStrategy(
            _eval_frame._FrameAction.SKIP, _eval_frame._FrameAction.DEFAULT
        )
    except (AttributeError, TypeError):
        return None
    return lambda code: _eval_frame.set_code_exec_strategy(code, strategy)


_mark = _marker()

IS_POSSIBLE = _mark is not None and hasattr(_eval_frame, "set_eval_frame")
"""Whether this torch version supports hiding code from Dynamo."""

set_eval_frame: Callable[[Any], Any] = getattr(_eval_frame, "set_eval_frame", lambda _: None)
"""Set (or, with None, remove) this thread's callback for new frames; return the previous one."""


def unseen(function: _F) -> _F:
    """Hide the frames of a function from Dynamo, even if compiled code calls the function."""
    if _mark is not None:
        _mark(function.__code__)
    return function


# Private functions of torch: the number of active dispatch modes, and a mode by its key.
_mode_count: Callable[[], int] = getattr(torch._C, "_len_torch_dispatch_stack", lambda: 0)
_mode_of: Callable[[Any], Any] = getattr(torch._C, "_get_dispatch_mode", lambda _: None)
_MODES = [
    getattr(getattr(torch._C, "_TorchDispatchModeKey", None), name, None)
    for name in ("PROXY", "FAKE")
]

_function_mode_count: Callable[[], int] = getattr(torch._C, "_len_torch_function_stack", lambda: 0)
_OWN_MODES = "torch", __name__.partition(".")[0]  # such as the mode of `torch.set_default_device`


def _sees_functions(mode: object) -> bool:
    return type(mode).__module__.partition(".")[0] not in _OWN_MODES


@unseen
def is_captured() -> bool:
    """Return whether torch records calls as a graph, or a function mode of the program is active.

    Then, a range would become part of the graph or crash the program, calls are not training steps,
    and waiting for the device is not allowed. Dynamo must not trace this
    function: check `torch.compiler.is_compiling()` first.
    """
    return bool(
        torch._C._is_tracing()
        or getattr(_symbolic_trace, "_is_fx_tracing_flag", False)
        or torch.compiler.is_compiling()
        or (_mode_count() and any(map(_mode_of, _MODES)))
        or (_function_mode_count() and any(map(_sees_functions, _function_modes())))
        or (torch.cuda.is_initialized() and torch.cuda.is_current_stream_capturing())
    )


def has_compiled() -> bool:
    utils = sys.modules.get("torch._dynamo.utils")
    if utils is None:
        return False
    counters = getattr(utils, "counters", {})
    return bool(counters.get("frames") or counters.get("stats"))


def is_compiled(code: CodeType) -> bool:
    entries = getattr(_eval_frame, "_debug_get_cache_entry_list", None)
    return True if entries is None else bool(entries(code))


_MODULE = "torch._dynamo.eval_frame"
_NAME = "_callback_from_stance"
_CALL = "compile_wrapper"

_undo: Callable[[], None] | None = None


def listen_to_compiled(act: Callable[[], None]) -> bool:
    """Call `act` before each outermost call of a compiled function; return whether it can.

    At each call, a function returned by `torch.compile` gets its callback from Dynamo's private
    `_callback_from_stance`. The wrapper installed here therefore runs before the compiled code.
    """
    global _undo
    module = sys.modules.get(_MODULE)
    original = vars(module).get(_NAME) if module is not None else None
    if original is None or _undo is not None:
        return False

    def ask(*args: Any, **kwargs: Any) -> Any:
        caller = sys._getframe(1)
        # Compiled functions may call others; only the outermost call has no prior callback.
        if caller.f_code.co_name == _CALL and caller.f_locals.get("prior", True) is None:
            act()
        return original(*args, **kwargs)

    def undo() -> None:
        if vars(module).get(_NAME) is ask:
            setattr(module, _NAME, original)

    setattr(module, _NAME, ask)
    _undo = undo
    return True


def unlisten_to_compiled() -> None:
    global _undo
    if _undo is not None:
        _undo()
        _undo = None
