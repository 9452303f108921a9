"""The import of torch is noticed, however a program imports it."""

import os
import sys

import pytest
from processes import finished

from tracekit.collectors.loop.bootstrap import SITE, UNUSABLE, VARIABLE

# Not a usable torch: the hook that sees its import reports so.
TORCH = """
import os
if os.environ.pop("TORCH_FAILS", None):
    raise ImportError("a library is missing")
"""
PROGRAMS = {
    "imported": "import torch",
    "asked for first": "import importlib.util\nimportlib.util.find_spec('torch')\nimport torch",
    "asked for on two threads": (
        "import importlib.util, threading\n"
        "asking = [threading.Thread(target=importlib.util.find_spec, args=('torch',))"
        " for _ in range(2)]\n"
        "[one.start() for one in asking]\n"
        "[one.join() for one in asking]\n"
        "import torch"
    ),
    "tried twice": (
        "import os\n"
        "os.environ['TORCH_FAILS'] = '1'\n"
        "try:\n    import torch\n"
        "except ImportError as error:\n    assert str(error) == 'a library is missing', error\n"
        "import torch"
    ),
    "imported below a finder of its own": (
        "import importlib.util, sys\n"
        "class Finder:\n"
        "    asking = False\n"
        "    def find_spec(self, name, path, target=None):\n"
        "        if name != 'torch' or self.asking:\n            return None\n"
        "        self.asking = True\n"
        "        return importlib.util.find_spec(name)\n"
        "sys.meta_path.insert(0, Finder())\n"
        "import torch"
    ),
}
THEN = """
import sys
print(torch.__spec__.name, type(torch.__loader__).__name__, [type(f) for f in sys.meta_path[-3:]])
"""


@pytest.mark.parametrize("program", PROGRAMS.values(), ids=PROGRAMS)
def test_torch_is_seen_once_it_is_imported(program, tmp_path):
    wrapped = run(program + THEN, tmp_path)
    assert wrapped.stderr == ""
    seen = (tmp_path / "work" / UNUSABLE).read_text("utf-8")
    assert "ImportError" in seen or "ModuleNotFoundError" in seen, seen
    assert wrapped.stdout == run(program + THEN, tmp_path, is_wrapped=False).stdout


def test_a_torch_that_sitecustomize_of_the_machine_imports(tmp_path):
    machine = tmp_path / "machine"
    machine.mkdir()
    (machine / "sitecustomize.py").write_text("import torch\n", "utf-8")
    run("import torch", tmp_path, path=[str(machine)])
    assert (tmp_path / "work" / UNUSABLE).is_file()


def test_torch_that_is_only_searched_for(tmp_path):
    code = "import importlib.util\nprint(importlib.util.find_spec('torch').name)"
    assert run(code, tmp_path).stdout == "torch\n"
    assert not (tmp_path / "work" / UNUSABLE).exists()


def run(program, folder, *, path=None, is_wrapped=True):
    """Run a program with the torch above, as `tracekit collect` would."""
    work, site, packages = folder / "work", folder / "site", folder / "packages"
    for made in (work, site, packages):
        made.mkdir(exist_ok=True)
    (site / "sitecustomize.py").write_text(SITE, "utf-8")
    (packages / "torch.py").write_text(TORCH, "utf-8")
    variables = {**os.environ, VARIABLE: str(work)}
    first = [str(site)] if is_wrapped else []
    variables["PYTHONPATH"] = os.pathsep.join([*first, *(path or []), str(packages)])
    done = finished(sys.executable, "-c", program, **variables)
    assert done.returncode == 0, done.stderr
    return done
