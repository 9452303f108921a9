from collections.abc import Callable
from typing import Literal

from typing_extensions import Buffer, CapsuleType

_Row = tuple[int | str | None, ...]

def look(way: Literal["avx2", "plain"], /) -> bool: ...

class Columns:
    row_count: int
    def __init__(
        self,
        columns: tuple[tuple[str, str, str, tuple[str, ...], int | None], ...],
        kinds: tuple[tuple[str, str, str | None], ...],
        bounds: tuple[int, int, int],
        /,
    ) -> None: ...
    def read(
        self,
        text: Buffer,
        first_event_id: int,
        read_odd: Callable[[bytes, int, int], _Row | bool],
        /,
    ) -> tuple[int, int, Literal["more", "ended", "damaged"]]: ...
    def append(self, row: _Row, /) -> None: ...
    def take(self) -> CapsuleType | None: ...
    def stream(self, get_next: Callable[[], CapsuleType | None], /) -> CapsuleType: ...
