"""`make lint`: flag phrases that this project no longer uses, with the words to use instead.

`wording.toml` lists them: `[everywhere]` for all text and code, `[prose]` for Markdown pages alone.
Code and link targets of pages, and generated tables between markers, are skipped.
"""

import re
import subprocess
import sys
import tomllib
from pathlib import Path

REPO = Path(__file__).resolve().parents[2]
LIST = Path(__file__).with_name("wording.toml")
SUFFIXES = {".md", ".py", ".sql", ".toml", ".c", ".h", ".js", ".css"}

_NOT_PROSE = re.compile(
    r"^```.*?^```|<!-- begin: make .*?<!-- end: make [^>]*>|`[^`\n]*`|\]\([^)]*\)",
    re.MULTILINE | re.DOTALL,
)


def found(text, phrases):
    """Yield line, phrase, and replacement of each match; a match may span a line break."""
    lowered = text.lower()
    for phrase, instead in phrases.items():
        if not all(word in lowered for word in phrase.lower().split()):  # much faster than matching
            continue
        words = r"[\s#*-]+".join(map(re.escape, phrase.split()))
        for match in re.finditer(rf"(?<![\w'])(?:{words})(?![\w'])", text, re.IGNORECASE):
            yield text.count("\n", 0, match.start()) + 1, phrase, instead


def without_code(text):
    """Return the prose of a Markdown page, with its line numbers."""
    return _NOT_PROSE.sub(lambda match: re.sub(r"[^\n]", " ", match[0]), text)


def main():
    lists = tomllib.loads(LIST.read_text("utf-8"))
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=REPO, capture_output=True, check=True)
    count = 0
    for name in listed.stdout.decode().split("\0"):
        path = REPO / name
        if path.suffix not in SUFFIXES or path == LIST or not path.is_file():
            continue
        text = path.read_text("utf-8", errors="replace")
        hits = list(found(text, lists["everywhere"]))
        if path.suffix == ".md":
            hits += found(without_code(text), lists["prose"])
        for line, phrase, instead in sorted(hits):
            sys.stdout.write(f"{name}:{line}: '{phrase}': write {instead}\n")
        count += len(hits)
    return 1 if count else 0


if __name__ == "__main__":
    sys.exit(main())
