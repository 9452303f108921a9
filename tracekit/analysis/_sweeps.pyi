from typing_extensions import CapsuleType

def sweep(
    name: str, stream: CapsuleType, asked: object = ..., kinds: bytes = ..., /
) -> CapsuleType: ...
