"""LightLLM's source for a pack: the package alone, at the commit that was tried."""

from __future__ import annotations

import io
import re
import shutil
import subprocess
import tarfile
from pathlib import Path

from evidence._wheels import UnavailableError, clean

ADDRESS = "https://github.com/ModelTC/LightLLM.git"
COMMIT = "87881ae7c"
"""Later than v1.1, which has no profiler interface; pins the host's version of torch."""

_KEPT = ("lightllm", "LICENSE")
_CLONE_S = 300
# Audio is not served here, and librosa brings more than the pack may hold.
_LIBROSA = re.compile(r"^import librosa$", re.MULTILINE)
_LIBROSA_FILES = (
    "lightllm/server/multimodal_params.py",
    "lightllm/models/qwen3_omni_moe_thinker/model.py",
)


def export(clone: str | None, into: Path, work: Path) -> str:
    """Write the source into a folder.

    Args:
        clone: a clone of the repository on this machine; None to fetch it.
        into: takes the folder `lightllm`.
        work: for what is not kept.

    Returns:
        The commit.

    Raises:
        UnavailableError: it cannot be had.
    """
    repository = Path(clone) if clone is not None else _fetched(work)
    try:
        commit = _git(repository, "rev-parse", "--verify", f"{COMMIT}^{{commit}}").decode().strip()
        packed = _git(repository, "archive", "--format=tar", commit, *_KEPT)
    except UnavailableError as error:
        raise UnavailableError(f"the clone has no commit {COMMIT}: {error}") from error
    into.mkdir(parents=True)
    with tarfile.open(fileobj=io.BytesIO(packed)) as archive:
        archive.extractall(into, filter="data")
    for name in _LIBROSA_FILES:
        path = into / name
        text = path.read_text("utf-8")
        path.write_text(_LIBROSA.sub("librosa = None", text), "utf-8")
    for path in into.rglob("__pycache__"):
        shutil.rmtree(path)
    return commit


def _fetched(work: Path) -> Path:
    """Return a clone that was fetched."""
    target = work / "lightllm.git"
    # Blobs come with the one commit that is asked for.
    command = ["git", "clone", "--quiet", "--bare", "--filter=blob:none", ADDRESS, str(target)]
    try:
        done = subprocess.run(
            command,
            capture_output=True,
            encoding="utf-8",
            errors="replace",
            stdin=subprocess.DEVNULL,
            timeout=_CLONE_S,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise UnavailableError(f"cannot be fetched: {clean(str(error))}") from error
    if done.returncode != 0:
        said = clean(done.stderr).splitlines()
        raise UnavailableError(f"cannot be fetched: {said[-1] if said else done.returncode}")
    return target


def _git(repository: Path, *words: str) -> bytes:
    done = subprocess.run(["git", "-C", str(repository), *words], capture_output=True, check=False)
    if done.returncode != 0:
        said = clean(done.stderr.decode("utf-8", "replace")).splitlines()
        raise UnavailableError(said[-1] if said else f"git ended with {done.returncode}")
    return done.stdout
