"""Whether a server can be reached from outside of this machine."""

from __future__ import annotations

from pathlib import Path

_LISTENS = "0A"


def listens_everywhere(port: int) -> bool:
    """Tell whether somebody listens on a port on all interfaces; False where Linux does not tell.

    The format is that of `proc(5)`, `/proc/net/tcp`: addresses are hexadecimal, zero is any.

    Args:
        port: the TCP port.
    """
    for name in ("tcp", "tcp6"):
        try:
            lines = Path("/proc/net", name).read_text("ascii", "replace").splitlines()[1:]
        except OSError:
            continue
        for line in lines:
            _, local, _, state = line.split(maxsplit=4)[:4]
            address, _, number = local.partition(":")
            if state == _LISTENS and not address.strip("0") and int(number, 16) == port:
                return True
    return False
