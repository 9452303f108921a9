"""Shared by GPU tests: the device, claims, and the handling of a lost CUDA context.

Uses no fixtures of other tests, so that the folder can be copied to a GPU host: see
`evaluations/gpu_pack`.

Environment:
    TRACEKIT_GPU_TESTS_OUT: folder for run folders, and for tables in Markdown.
    TRACEKIT_GPU_TESTS_UNTIL: Unix time after which no test starts.
"""

import os
import sys
import time
from pathlib import Path

import pytest
from devices import PROGRAMS
from trial import Trial

# Last in the path, because some programs could have the names of packages.
sys.path.append(str(PROGRAMS))

_trial = pytest.StashKey[Trial]()


def pytest_itemcollected(item):
    """Allow warnings of libraries, whose versions are the host's; run on the CPU only nightly."""
    item.add_marker(pytest.mark.filterwarnings("default"))
    if item.get_closest_marker("gpu") is None:
        item.add_marker(pytest.mark.nightly("checks the GPU tests themselves, on the CPU"))


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item):
    """Fail a test if claims do not hold, and list all of these claims."""
    broken = item.stash[_trial].broken if _trial in item.stash else []
    try:
        result = yield
    except Exception as error:
        for text in broken:
            error.add_note(f"does not hold: {text}")
        raise
    if broken:
        pytest.fail("\n".join(broken), pytrace=False)
    return result


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item, call):
    """End the process when its CUDA context is lost: pytest-xdist starts another for the rest."""
    report = yield
    if call.excinfo is not None and is_context_lost(call.excinfo.value):
        sys.__stderr__.write(f"{item.nodeid}\n{report.longreprtext}\n")
        if "PYTEST_XDIST_WORKER" in os.environ:
            os._exit(1)
        pytest.exit("the CUDA context is lost: no later test could be believed", returncode=1)
    return report


def is_context_lost(error):
    """Return whether an error makes the CUDA context of this process unusable."""
    # Errors of a command appear in its output, not as a RuntimeError.
    if not isinstance(error, RuntimeError) or "out of memory" in str(error):
        return False
    return type(error).__name__ == "AcceleratorError" or "CUDA error" in str(error)


@pytest.fixture
def device(request):
    torch = pytest.importorskip("torch")
    if time.time() > float(os.environ.get("TRACEKIT_GPU_TESTS_UNTIL", "inf")):
        pytest.skip("no time was left")
    if request.param == "cpu":
        return torch.device("cpu")
    if not torch.cuda.is_available():
        pytest.skip("needs a CUDA device, and torch sees none here")
    is_alone = int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", "1")) == 1
    if request.node.get_closest_marker("alone") and not is_alone:
        pytest.skip("measures times: needs the device to itself (pytest -m 'gpu and alone' -n 0)")
    return torch.device("cuda", 0)


@pytest.fixture
def trial(request, device, tmp_path, tmp_path_factory, record_property):
    out = os.environ.get("TRACEKIT_GPU_TESTS_OUT") or tmp_path_factory.getbasetemp() / "gpu"
    runs = Path(out) / "runs" / device.type
    runs.mkdir(parents=True, exist_ok=True)
    request.node.stash[_trial] = Trial(device, runs, tmp_path, record_property)
    return request.node.stash[_trial]
