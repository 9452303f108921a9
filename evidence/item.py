"""Run one item: `python item.py SETTING.json`. `run.py` starts it, in an environment of its own."""

from __future__ import annotations

import os
import sys
from importlib import import_module
from pathlib import Path

if __name__ == "__main__":
    # The folder of the scripts gives way to the one above, so that their names are `evidence.…`.
    sys.path[0] = str(Path(__file__).resolve().parent.parent)

from evidence._records import Record
from evidence._setting import Setting


def main(arguments: list[str]) -> int:
    """Run the item and return 0; what it found is in its record."""
    setting = Setting.read(Path(arguments[0]))
    script = setting.arguments["script"]
    record = Record(Path(setting.record), setting.item)
    import_module(f"evidence.items.{script}").run(setting, record)
    # Interpreter shutdown with live communicators can hang or crash; everything is on disk.
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(0)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
