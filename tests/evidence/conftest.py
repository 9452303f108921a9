"""Makes the scripts of `evidence/`, which are no part of the package, importable."""

import sys
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parents[2]))
