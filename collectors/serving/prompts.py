"""Synthetic prompts of a given number of tokens, the same for the same seed.

Where the engine takes token ids, prompts are random ids. Elsewhere they are random words, whose
tokens only the engine can count; it is asked, and the number of words corrected by its answers.
"""

from __future__ import annotations

import random
from collections.abc import Callable

from .plan import Prompt

UNKNOWN_VOCABULARY_SIZE = 8192
"""Ids below this exist in every model that is served today, whatever its vocabulary."""

_SPECIAL_ID_COUNT = 512
"""The first ids are special tokens and single bytes; they are left out of large vocabularies."""

_PROBE_COUNT = 5
# A server whose counts would have a prompt of more words than this per token is not believed.
_MOST_WORDS_PER_TOKEN = 16

# Short and common, so that most tokenizers have each as one token.
_TEXT = (
    "time year people way day man thing woman life child world school state family student group "
    "country problem hand part place case week company system program question work government "
    "number night point home water room mother area money story fact month lot right study book "
    "eye job word business issue side kind head house service friend father power hour game line "
    "end member law car city community name president team minute idea kid body information back "
    "parent face others level office door health person art war history party result change "
    "morning reason research girl guy moment air teacher force education"
)
_WORDS = tuple(_TEXT.split())


def token_id_prompts(
    count: int, token_count: int, vocabulary_size: int | None, seed: int
) -> list[Prompt]:
    """Return prompts of random token ids, which are below the vocabulary's size if it is known."""
    size = vocabulary_size or UNKNOWN_VOCABULARY_SIZE
    first = min(_SPECIAL_ID_COUNT, size // 4)
    source = random.Random(seed)
    ids = range(first, size)
    return [Prompt(token_count, token_ids=source.choices(ids, k=token_count)) for _ in range(count)]


def text_prompts(
    count: int, token_count: int, seed: int, count_tokens: Callable[[str], int | None]
) -> tuple[list[Prompt], int | None]:
    """Return prompts of random words, and the number of tokens that the engine counted.

    All prompts are the same words in another order: their numbers of tokens differ little if at
    all, so that a few questions to the engine settle the length of all. `count_tokens` asks it;
    None or 0 as an answer means that it does not count, and then the number is None.
    """
    source = random.Random(seed)
    words = source.choices(_WORDS, k=max(1, token_count))
    closest: tuple[int, list[str]] | None = None
    counted: int | None = None
    for _ in range(_PROBE_COUNT):
        counted = count_tokens(" ".join(words)) or None
        if counted is None:
            break
        if closest is None or abs(counted - token_count) < abs(closest[0] - token_count):
            closest = (counted, words)
        missing = token_count - counted
        if missing == 0:
            break
        words = _resized(words, missing, counted, source)[: _MOST_WORDS_PER_TOKEN * token_count]
    if closest is not None:
        counted, words = closest
    prompts = []
    for _ in range(count):
        shuffled = source.sample(words, k=len(words))
        prompts.append(Prompt(token_count if counted is None else counted, text=" ".join(shuffled)))
    return prompts, counted


def _resized(words: list[str], missing: int, counted: int, source: random.Random) -> list[str]:
    """Return the words with some added or removed, to make up for missing tokens."""
    per_word = counted / len(words)
    # At least one word, or a question would be asked twice.
    change = round(missing / per_word) or (1 if missing > 0 else -1)
    if change > 0:
        change = min(change, _MOST_WORDS_PER_TOKEN * (len(words) + missing))
        return words + source.choices(_WORDS, k=change)
    return words[: max(1, len(words) + change)]
