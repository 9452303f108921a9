"""Fuzz the readers for some minutes; failing inputs become files under tests/corpus/.

    python tests/fuzz/run.py --minutes 10 [--seed N] [--target NAME]

The seed is printed; each case depends only on seed, target, and number. Cases run a dozen at a time
in a separate process, so that crashes and hangs are found, too. The exit code is 1 if anything was
found. tests/test_corpus.py runs every file of the corpus.
"""

import argparse
import hashlib
import multiprocessing
import random
import sys
import time
import traceback
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
from targets import REPO, TARGETS

CORPUS = REPO / "tests" / "corpus"
BATCH = 12
LIMIT_S = 120
"""Limit for one case, which takes about a second."""


def case(seed, target, number):
    """Return one case."""
    return TARGETS[target].make(random.Random(f"{seed}/{target}/{number}"))


def work(seed, target, numbers, out):
    """Run some cases; send the number of each one, and its traceback if it fails."""
    for number in numbers:
        out.send((number, None))
        try:
            TARGETS[target].check(case(seed, target, number))
        except BaseException:  # noqa: BLE001
            out.send((number, traceback.format_exc()))
    out.send((None, None))


def batch(seed, target, numbers):
    """Run some cases in a process; return the numbers and tracebacks of those that fail."""
    found = []
    todo = numbers
    while todo:
        ours, theirs = multiprocessing.Pipe(duplex=False)
        process = multiprocessing.get_context("fork").Process(
            target=work, args=(seed, target, todo, theirs)
        )
        process.start()
        theirs.close()
        current, end = todo.start, "the process died"
        try:
            while True:
                if not ours.poll(LIMIT_S):
                    end = f"no end within {LIMIT_S} s"
                    break
                number, wrong = ours.recv()
                if number is None:
                    current = todo.stop
                    break
                current = number
                if wrong is not None:
                    found.append((number, wrong))
        except EOFError:
            pass
        process.kill()
        process.join()
        if current < todo.stop:
            found.append((current, end))
        todo = range(current + 1, todo.stop)
    return found


def main():
    """Fuzz, and return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--minutes", type=float, default=10)
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(10**9))
    parser.add_argument("--target", choices=sorted(TARGETS), action="append")
    given = parser.parse_args()
    names = given.target or list(TARGETS)
    sys.stdout.write(f"seed {given.seed}\n")
    counts = dict.fromkeys(names, 0)
    spent_s = dict.fromkeys(names, 0.0)
    finds = 0
    end_s = time.monotonic() + 60 * given.minutes
    while time.monotonic() < end_s:
        # Each target gets the same share of the time.
        name = min(names, key=spent_s.__getitem__)
        begun_s = time.monotonic()
        numbers = range(counts[name], counts[name] + BATCH)
        counts[name] += BATCH
        for number, wrong in batch(given.seed, name, numbers):
            data = case(given.seed, name, number)
            path = CORPUS / name / hashlib.sha256(data).hexdigest()[:12]
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(data)
            finds += 1
            sys.stdout.write(f"{path.relative_to(REPO)} (case {number}):\n{wrong}\n")
        spent_s[name] += time.monotonic() - begun_s
    summary = ", ".join(f"{count} {name}" for name, count in counts.items())
    sys.stdout.write(f"cases: {summary}; finds: {finds}\n")
    return 1 if finds else 0


if __name__ == "__main__":
    sys.exit(main())
