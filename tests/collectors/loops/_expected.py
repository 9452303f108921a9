"""Output of the bare loop programs, which a recorded program must print too.

    python tests/collectors/loops/_expected.py [PROGRAM ...]

reruns the bare programs and rewrites their sections of `expected.txt`, all of them by default. A
PROGRAM is a section heading such as "ddp compiled eager (2 ranks)". Losses of consecutive steps are
on one line. A line `left: NAME` is a file that the program leaves behind.
"""

import math
import re
import sys
import tempfile
from pathlib import Path

from _loops import Loops

FILE = Path(__file__).with_name("expected.txt")
TOLERANCE = 1e-3  # processors differ in the last digits
_STEP = re.compile(r"((?:rank \d+ )?)step (\d+) loss (\S+)")


def lines_of(stdout, files):
    """Return the lines of a program, ordered by rank, with the losses of its steps on one line."""
    printed = stdout.splitlines()
    if any(line.startswith("rank ") for line in printed):  # ranks print concurrently
        printed.sort(key=lambda line: line.split()[:2])
    lines = []
    rank, count = None, 0
    for line in printed:
        step = _STEP.fullmatch(line)
        if step and lines and step[1] == rank and int(step[2]) == count:
            lines[-1] += f" {step[3]}"
        else:
            lines.append(f"{step[1]}losses from step {step[2]}: {step[3]}" if step else line)
        rank, count = (step[1], int(step[2]) + 1) if step else (None, 0)
    return [*lines, *(f"left: {name}" for name in files)]


def expected():
    sections = {}
    for line in FILE.read_text("utf-8").splitlines():
        if line.startswith("$ "):
            lines = sections.setdefault(line[2:], [])
        else:
            lines.append(line)
    return sections


def is_same(found, wanted):
    pairs = list(zip(found.split(), wanted.split(), strict=False))
    return len(found.split()) == len(wanted.split()) and all(
        one == other or ("." in one + other and _is_close(one, other)) for one, other in pairs
    )


def _is_close(one, other):
    try:
        return math.isclose(float(one), float(other), rel_tol=TOLERANCE, abs_tol=1e-6)
    except ValueError:
        return False


def assert_unharmed(result, program):
    assert result.exit_code == 0, result.stderr
    found, wanted = lines_of(result.stdout, result.files), expected()[program]
    assert len(found) == len(wanted), (found, wanted)
    for one, other in zip(found, wanted, strict=True):
        assert is_same(one, other), (one, other)
    assert result.left == []


def main(names):
    sections = expected()
    with tempfile.TemporaryDirectory() as folder:
        loops = Loops(Path(folder))
        for name in names or sections:
            program, _, ranks = name.partition(" (")
            how = {"ranks": int(ranks.split()[0])} if ranks else {}
            how |= {"is_torchrun": True} if "torchrun" in ranks else {}
            done = loops.run(*program.split(), is_bare=True, **how)
            if done.exit_code:
                sys.exit(f"{name}: exit code {done.exit_code}\n{done.stderr}")
            sections[name] = lines_of(done.stdout, done.files)
        loops.close()
    text = "".join(f"$ {name}\n" + "".join(f"{x}\n" for x in sections[name]) for name in sections)
    FILE.write_text(text, "utf-8")


if __name__ == "__main__":
    main(sys.argv[1:])
