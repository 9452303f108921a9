from collections.abc import Callable

from typing_extensions import Buffer, CapsuleType

MAX_TIME_US: int
MIN_TIME_US: int
MAX_DUR_US: int

def parse_events(
    text: Buffer, first_event_id: int, /
) -> tuple[CapsuleType, int, int, bool] | None: ...
def event_stream(get_next: Callable[[], CapsuleType | None], /) -> CapsuleType: ...
