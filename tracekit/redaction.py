"""Removes keys and passwords from stored and displayed text.

There are two methods. By form: X is removed from `--api-key X`, `HF_TOKEN=X`, `{"password": "X"}`,
`Authorization: Bearer X`, and `https://user:X@host`, at any length. By value: secrets from
arguments or the environment are removed from any text, such as a server log.
"""

from __future__ import annotations

import base64
import json
import re
import urllib.parse
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import IO, Any

from msgspec import Struct
from msgspec.structs import asdict, replace

MASK = "(redacted)"
"""Text that replaces a secret."""

# Shorter values would match unrelated words.
_SHORTEST = 4
_SHORTEST_IN_ENVIRONMENT = 8
_BLOCK_BYTES = 1 << 20

_WORD_START = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")
_SECRET_NAME = re.compile(
    r"""
    (?:^|_)(?:key|keys|apikey|apikeys|password|passwd|passphrase|pwd|authorization|cookie
             |credential|credentials|bearer|secret|secrets|amz_signature|goog_signature)$
    | ^sig$
    | (?:^|_)secret_
    | ^token$
    | (?:^|_)(?:access|admin|api|auth|bearer|csrf|deploy|github|gitlab|hf|hub|huggingface|id|jwt
                |login|oauth|personal|private|refresh|registry|sas|secret|security|server|service
                |session|user|wandb)_token$
    """,
    re.VERBOSE,
)
# Parameters of signed URLs that contain the signer's identity or the signature: S3, Google, Azure
# (SAS), CloudFront, Alibaba, Tencent, Akamai. Other parameters are not secret, and their short
# names would match unrelated text.
_SIGNATURE_NAME = re.compile(
    r"(?:x-[a-z]{2,8}-|q-)?(?:signature|sig)|x-[a-z]{2,8}-(?:credential|security-token)"
    r"|[a-z]{0,6}accesskeyid|googleaccessid|q-ak|key-pair-id|policy|hdn(?:ea|ts|tl)"
)
# All repetitions are bounded, so that matching takes linear time. These patterns are compiled on
# first use, because most commands do not need them.
_URL = (
    r"\b[a-zA-Z][a-zA-Z0-9+.-]{0,20}://"
    r"(?P<user>[^\s/?#@:\"']{0,1000})(?::(?P<value>[^\s/?#\"']{0,1000}))?@"
)
_ANY_URL = r"\b[a-zA-Z][a-zA-Z0-9+.-]{0,20}://\S+"
_VALUE = (
    r"""(?:\\{0,3}"(?P<double>[^"\\]{1,4000})|'(?P<single>[^']{1,4000})"""
    r"""|(?P<bare>[^\s"'\\,;&{}\[\]()]{1,4000}))"""
)
_NAME = r"(?P<name>[A-Za-z][\w-]{0,100})"
# `--api-key=X`, `HF_TOKEN=X`, `"api_key": "X"`, `?api_key=X`, `Authorization: Bearer X`. A
# lookahead matches the value, because it may contain the next name (`http://host/?api_key=X`).
_PAIR = (
    rf"""(?<![\w-])-{{0,2}}{_NAME}(?=\\{{0,3}}["']?\s{{0,9}}[=:]\s{{0,9}}(?:\[\s{{0,9}})?"""
    rf"""(?:(?:Bearer|Basic|Token|ApiKey|SharedKey|Negotiate)\s{{1,9}})?{_VALUE})"""
)
# `--api-key X` inside a single string.
_OPTION = rf"(?:^|(?<=[\s\"']))--?{_NAME}(?=\s{{1,9}}(?!-){_VALUE})"
# A parameter of a URL inside another URL, or in JSON that escapes `&`.
_SEPARATOR, _EQUALS = (
    r"%(?:25){0,3}(?:3[Ff]|26|23)|\\+u00(?:26|3[Ff])",
    r"=|%(?:25){0,3}3[Dd]|\\+u003[Dd]",
)
_QUOTED = (
    rf"(?:{_SEPARATOR})(?P<name>[A-Za-z][\w-]{{0,100}}?)(?:{_EQUALS})"
    rf"(?P<bare>(?:(?!{_SEPARATOR})[^\s\"'&#\\]){{1,4000}})"
)
# The signature of a request in a header, in AWS's format.
_SIGNED = r"\bSignature=(?P<bare>[0-9A-Za-z+/_=-]{16,1000})"
_OPTION_NAME = re.compile(r"--?(?P<name>[A-Za-z][\w-]*)")


def is_secret_name(name: str) -> bool:
    """Return whether an option, member, header, or variable of this name has a secret value.

    Args:
        name: the name in any case and style: `--api-key`, `apiKey`, `HF_TOKEN`.
    """
    words = _WORD_START.sub("_", name) if not name.isupper() else name
    plain = words.strip("-").replace("-", "_").replace(".", "_").lower()
    is_variable = name.isupper() and plain.endswith("_token")
    return is_variable or _SECRET_NAME.search(plain) is not None


def is_signature_name(name: str) -> bool:
    """Return whether a query parameter of a URL is part of its signature.

    Args:
        name: the name in any case: `sig`, `X-Amz-Signature`.
    """
    return _SIGNATURE_NAME.fullmatch(name.lower()) is not None


def mask_text(text: str) -> str:
    """Return a command line, URL, or JSON text without the values of its secrets."""
    begin = 0
    pieces = []
    for start, end in _spans(text):
        if start >= begin:
            pieces += [text[begin:start], MASK]
            begin = end
    return "".join((*pieces, text[begin:]))


def mask_urls(text: str) -> str:
    """Return a sentence with the secrets in its URLs masked."""
    return re.sub(_ANY_URL, lambda url: mask_text(url[0]), text)


def mask_words(words: Sequence[str]) -> list[str]:
    """Return the words of a command line without the values of its secrets."""
    masked = []
    is_value = False
    for word in words:
        masked.append(MASK if is_value and not word.startswith("--") else mask_text(word))
        is_value = _is_option(word)
    return masked


def secrets_in_words(words: Sequence[str]) -> set[str]:
    """Return the values that `mask_words` removes."""
    results: set[str] = set()
    is_value = False
    for word in words:
        if is_value and not word.startswith("--"):
            results.add(word)
        results |= secrets_in_text(word)
        is_value = _is_option(word)
    return results


def secrets_in_text(text: str) -> set[str]:
    """Return the values that `mask_text` removes."""
    result = {text[start:end] for start, end in _spans(text)}
    try:
        value = json.loads(text) if text.lstrip().startswith(("{", "[")) else None
    except (ValueError, RecursionError):
        value = None
    return result | _secrets_in_json(value)


def secrets_in_environment(variables: Mapping[str, str]) -> set[str]:
    """Return the values of variables whose names indicate secrets.

    Paths are not secrets: `SSL_KEY=/etc/…` names a file.
    """
    return {
        value.strip()
        for name, value in variables.items()
        if is_secret_name(name)
        and len(value.strip()) >= _SHORTEST_IN_ENVIRONMENT
        and not value.startswith("/")
    }


class Redactor:
    """Removes known secrets from text, including their encoded forms, such as URL-quoted or base64.

    Args:
        secrets: the values to remove. Values shorter than four characters are ignored.
    """

    def __init__(self, secrets: Iterable[str]) -> None:
        known = {secret for secret in secrets if len(secret) >= _SHORTEST and secret != MASK}
        forms: set[str] = set()
        for secret in known:
            forms |= {secret, urllib.parse.quote(secret, safe=""), json.dumps(secret)[1:-1]}
            forms.add(json.dumps(secret, ensure_ascii=False)[1:-1])
            forms.add(base64.b64encode(secret.encode("utf-8", "replace")).decode())
        # Longest first, because a secret may contain another secret.
        self._forms = sorted(forms, key=lambda form: (-len(form), form))
        pattern = "|".join(map(re.escape, self._forms))
        self._pattern = re.compile(pattern) if pattern else None
        encoded = b"|".join(re.escape(form.encode("utf-8", "replace")) for form in self._forms)
        self._bytes_pattern = re.compile(encoded) if encoded else None

    @property
    def longest_bytes(self) -> int:
        """Length of the longest form of a secret, or 0."""
        return max((len(form.encode("utf-8", "replace")) for form in self._forms), default=0)

    def clean(self, text: str) -> str:
        """Return text without the secrets."""
        return text if self._pattern is None else self._pattern.sub(MASK, text)

    def is_in(self, data: bytes) -> bool:
        """Return whether bytes contain a secret."""
        return self._bytes_pattern is not None and self._bytes_pattern.search(data) is not None

    def clean_bytes(self, data: bytes) -> bytes:
        """Return bytes without the secrets."""
        if self._bytes_pattern is None:
            return data
        return self._bytes_pattern.sub(MASK.encode(), data)

    def copy(self, source: IO[bytes], target: IO[bytes]) -> None:
        """Copy a file block by block, without the secrets."""
        rest = b""
        while block := source.read(_BLOCK_BYTES):
            # Search the end of a block again with the next block, because a secret may span both.
            data = self.clean_bytes(rest + block)
            keep = max(len(data) - self.longest_bytes, 0)
            target.write(data[:keep])
            rest = data[keep:]
        target.write(rest)

    def clean_json(self, value: Any) -> Any:
        """Return JSON or a Struct without the secrets, in keys and values at any depth."""
        if self._pattern is None:
            return value
        if isinstance(value, str):
            return self.clean(value)
        if isinstance(value, list | tuple):
            return [self.clean_json(item) for item in value]
        if isinstance(value, dict):
            return {self.clean_json(key): self.clean_json(item) for key, item in value.items()}
        if isinstance(value, Struct):
            members = self.clean_json(asdict(value))
            return replace(value, **members)
        return value


def mask_json(value: Any) -> Any:
    """Return a JSON value with every member whose name indicates a secret masked, at any depth."""
    if isinstance(value, list):
        return [mask_json(item) for item in value]
    if isinstance(value, dict):
        return {
            key: MASK if item and is_secret_name(str(key)) else mask_json(item)
            for key, item in value.items()
        }
    return mask_text(value) if isinstance(value, str) else value


def mask_members(value: Any) -> None:
    """Mask, in place, the text members of a JSON value whose names indicate secrets.

    Unlike `mask_json`, it does not search inside text, and skips members named ``key`` or ``keys``,
    which are rarely secrets. It works at any depth, without recursion.
    """
    waiting = [value]
    while waiting:
        item = waiting.pop()
        if isinstance(item, list):
            waiting += item
        elif isinstance(item, dict):
            for name, member in item.items():
                if isinstance(member, dict | list):
                    waiting.append(member)
                elif member and isinstance(member, str) and _is_secret_member(name):
                    item[name] = MASK


def _is_secret_member(name: str) -> bool:
    return name.lower() not in ("key", "keys") and is_secret_name(name)


def _is_option(word: str) -> bool:
    match = _OPTION_NAME.fullmatch(word)
    return match is not None and is_secret_name(match["name"])


def _spans(text: str) -> list[tuple[int, int]]:
    """Return the start and end of each secret in a string, in order."""
    return sorted(_secret_spans(text))


def _secret_spans(text: str) -> Iterator[tuple[int, int]]:
    for url in re.finditer(_URL, text):
        yield url.span("user" if url["value"] is None else "value")
    for pattern in (_PAIR, _OPTION):
        for pair in re.finditer(pattern, text):
            is_in_query = text[max(0, pair.start() - 1) : pair.start()] in ("?", "&", "#", ";")
            if is_secret_name(pair["name"]) or (is_in_query and is_signature_name(pair["name"])):
                yield next(
                    pair.span(group) for group in ("double", "single", "bare") if pair[group]
                )

    for pair in re.finditer(_QUOTED, text):
        if is_secret_name(pair["name"]) or is_signature_name(pair["name"]):
            yield pair.span("bare")
    for signed in re.finditer(_SIGNED, text):
        yield signed.span("bare")


def _secrets_in_json(value: Any) -> set[str]:
    results: set[str] = set()
    waiting = [(False, value)]
    while waiting:
        is_secret, item = waiting.pop()
        if isinstance(item, dict):
            waiting += [(is_secret or is_secret_name(str(k)), v) for k, v in item.items()]
        elif isinstance(item, list):
            waiting += [(is_secret, part) for part in item]
        elif isinstance(item, str):
            results |= {item} if is_secret else secrets_in_text(item)
        elif is_secret and item is not None and not isinstance(item, bool):
            results.add(json.dumps(item))
    return results
