"""The encoder of Perfetto's packets: the compiled one where it is there, else that in Python."""

from __future__ import annotations

from typing import Any

from tracekit.export.packet_encoder import PacketEncoder


def packet_encoder(*args: Any, is_compiled: bool = True) -> PacketEncoder:
    """Return an encoder of packets.

    Args:
        *args: as PacketEncoder takes them.
        is_compiled: the compiled one, if it is there.
    """
    compiled = compiled_encoders() if is_compiled else None
    return PacketEncoder(*args) if compiled is None else compiled.PacketEncoder(*args)


def compiled_encoders() -> Any:
    """Return the module with the compiled encoders, None where it is not there."""
    try:
        import tracekit.export._encoders as _encoders
    except ImportError:
        return None
    return _encoders
