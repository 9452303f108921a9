"""Load on transformers' engine in two variants: alternates run folders of A and B.

    python served.py PAIR.json FOLDER

PAIR.json has the options of both for `tracekit collect --stage serve`, and engine faults:
`sleep_ms` in scheduling, or `texts`, which detokenizes all tokens in each step. Run folders are
FOLDER/a0, FOLDER/b0, and so on.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest.mock import patch

WRONG = ("sleep_ms", "texts")


@contextmanager
def wrong(options: Mapping[str, Any]) -> Iterator[None]:
    """Inject the faults into engines that are created inside the block."""
    from tokenizers import Tokenizer, models
    from transformers import PreTrainedTokenizerFast
    from transformers.generation.continuous_batching.continuous_api import ContinuousBatchProcessor
    from transformers.generation.continuous_batching.scheduler import FIFOScheduler

    schedule, update = FIFOScheduler.schedule_batch, ContinuousBatchProcessor.update_batch
    words = {f"word{number}": number for number in range(8_192)}
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=Tokenizer(models.WordLevel(words, unk_token="word0"))
    )

    def slowly(self: Any, *budgets: int) -> Any:
        if options.get("sleep_ms"):
            time.sleep(options["sleep_ms"] / 1e3)
        return schedule(self, *budgets)

    def with_texts(self: Any) -> None:
        update(self)
        for state in self.scheduler.active_requests.values():
            for _ in range(options.get("texts", 0)):
                tokenizer.decode([*state.initial_tokens, *state.generated_tokens])

    with (
        patch.object(FIFOScheduler, "schedule_batch", slowly),
        patch.object(ContinuousBatchProcessor, "update_batch", with_texts),
    ):
        yield


def main() -> None:
    from tracekit.collectors.collect import run
    from tracekit.collectors.command_line import parsed
    from tracekit.collectors.options import OPTIONS

    pair = json.loads(Path(sys.argv[1]).read_text("utf-8"))
    folder = Path(sys.argv[2])
    for number in range(pair["rounds"]):
        for name in ("a", "b"):
            given = {key: value for key, value in pair[name].items() if key not in WRONG}
            words = ["--stage", "serve", "--out", str(folder / f"{name}{number}"), "--force"]
            words += [str(word) for option in given.items() for word in option if word != ""]
            with wrong(pair[name]):
                run(parsed(OPTIONS, words), ["tracekit", "collect", *words], print)


if __name__ == "__main__":
    main()
