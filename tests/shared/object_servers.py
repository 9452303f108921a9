"""Emulators of Google's and Azure's storage on the loopback interface.

They are looked up on PATH: ``fake-gcs-server`` (https://github.com/fsouza/fake-gcs-server) and
``azurite-blob`` (``npm install azurite``).
"""

from __future__ import annotations

import base64
import contextlib
import os
import secrets
import shutil
import socket
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from running_server import running

PROGRAMS = {"gs": "fake-gcs-server", "az": "azurite-blob"}
"""The program of each URL scheme."""


@dataclass(frozen=True, slots=True)
class ObjectServer:
    """Environment variables of clients of a running server, and the secret in them, if any."""

    environment: dict[str, str]
    secret: str | None


@contextlib.contextmanager
def serving(scheme: str, folder: Path) -> Iterator[ObjectServer]:
    """Start the empty server of a URL scheme on a free port; stop it at the end."""
    program = shutil.which(PROGRAMS[scheme])
    if program is None:
        raise RuntimeError(f"the program {PROGRAMS[scheme]} is not installed")
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        port = held.getsockname()[1]
    url = f"http://127.0.0.1:{port}"
    known: dict[str, str] = {}
    if scheme == "gs":
        command = [program, "-backend", "memory", "-scheme", "http", "-host", "127.0.0.1"]
        command += ["-port", str(port), "-public-host", f"127.0.0.1:{port}", "-external-url", url]
        server = ObjectServer({"STORAGE_EMULATOR_HOST": url}, None)
    else:
        account, key = f"tk{secrets.token_hex(4)}", base64.b64encode(secrets.token_bytes(64))
        command = [program, "--inMemoryPersistence", "--blobPort", str(port)]
        command += ["--disableTelemetry", "--skipApiVersionCheck", "--silent"]
        known["AZURITE_ACCOUNTS"] = f"{account}:{key.decode()}"
        text = (
            f"DefaultEndpointsProtocol=http;AccountName={account};AccountKey={key.decode()};"
            f"BlobEndpoint={url}/{account};"
        )
        server = ObjectServer({"AZURE_STORAGE_CONNECTION_STRING": text}, key.decode())

    def is_up() -> bool:
        with socket.create_connection(("127.0.0.1", port), 5):
            return True

    with running(command, folder, {**os.environ, **known}, is_up):
        yield server
