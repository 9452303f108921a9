"""A client of the protocol, without a model, over stdio and HTTP, limits and disturbances too."""

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
from contextlib import asynccontextmanager, contextmanager, suppress
from pathlib import Path

import anyio
import httpx2
import psutil
import pytest
from mcp import Client, MCPDeprecationWarning, StdioServerParameters
from mcp.client.streamable_http import streamable_http_client
from processes import finished
from traces_by_hand import work

from tracekit.mcp import server as served
from tracekit.render.brief import token_count

ENDLESS = "SELECT count(*) FROM range(100000000) a, range(100000000) b"
TOKEN = "a-token-of-the-test"
HELLO = {
    "protocolVersion": "2025-06-18",
    "capabilities": {},
    "clientInfo": {"name": "test", "version": "1"},
}
_NIGHTLY = pytest.mark.nightly("starts a server; one test over stdio is in the gate")


@pytest.fixture
def folder(folder):
    (folder / "a.json").write_text(json.dumps({"traceEvents": work(0, 5, 25, 1, "sgemm")}))
    return folder


@pytest.fixture
def environment(tmp_path):
    cache = {"TRACEKIT_CACHE_DIR": str(tmp_path / "cache"), served.TOKEN: TOKEN}
    return {**{k: v for k, v in os.environ.items() if not k.startswith("TRACEKIT_")}, **cache}


def arguments(folder, *more):
    return ["-P", "-m", "tracekit", "mcp", str(folder), *more]


@pytest.fixture
def over_stdio(folder, environment):
    """Return a function that opens a client with its own server."""

    def client(*more, mode="auto"):
        parameters = StdioServerParameters(
            command=sys.executable, args=arguments(folder, *more), env=environment
        )
        return Client(parameters, mode=mode)

    return client


@contextmanager
def http_server(folder, environment, *more):
    with subprocess.Popen(
        [sys.executable, *arguments(folder, "--http", "0", *more)],
        env=environment,
        stderr=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        line = process.stderr.readline()
        assert line.startswith("listening on "), line
        assert process.stderr.readline() == f"header: Authorization: Bearer {TOKEN}\n"
        yield line.split()[-1]
        process.send_signal(signal.SIGINT)
        assert process.stdout.read() == ""


@asynccontextmanager
async def http_client(url):
    header = {"Authorization": f"Bearer {TOKEN}"}
    async with (
        httpx2.AsyncClient(headers=header, timeout=60) as http,
        Client(streamable_http_client(url, http_client=http)) as client,
    ):
        yield client


def text_of(result, *, fails=False):
    (content,) = result.content
    assert bool(result.is_error) == fails, content.text
    return str(content.text)


async def tools_answer(client):
    """Answers do not depend on the transport: test two answers and two errors."""
    tools = (await client.list_tools()).tools
    assert [tool.name for tool in tools] == ["open", "ask", "sql", "compare", "advise", "explain"]
    assert all(tool.annotations is not None and tool.annotations.read_only_hint for tool in tools)
    described = json.dumps([tool.model_dump(exclude_none=True, by_alias=True) for tool in tools])
    assert token_count(described) <= 2_500
    given = {"trace": "a.json"}
    found = await client.call_tool("ask", {**given, "analysis": "kernels"})
    assert "name=sgemm" in text_of(found)
    found = await client.call_tool("sql", {**given, "statement": "SELECT 6 * 7 AS n"})
    assert "n=42" in text_of(found)
    endless = "SELECT repeat('x', 400000000) FROM range(9999)"
    for name, wrong in (
        ("open", {"trace": "../secret.json"}),
        ("sql", {**given, "statement": endless}),
        ("nonsense", {}),
    ):
        text = text_of(await client.call_tool(name, wrong), fails=True)
        assert text.startswith("error: ")
        assert "next: " in text or "hint: " in text


def test_tools_over_stdio(over_stdio):
    async def run():
        async with over_stdio() as client:
            assert client.server_info is not None
            assert "data, never" in str(client.instructions)
            await tools_answer(client)

    anyio.run(run)


@_NIGHTLY
def test_tools_over_http(folder, environment):
    async def run(url):
        async with http_client(url) as client:
            await tools_answer(client)

    with http_server(folder, environment) as url:
        anyio.run(run, url)


@_NIGHTLY
def test_http_is_for_this_machine_and_who_has_the_token(folder, environment):
    body = {"jsonrpc": "2.0", "id": 1, "method": "ping"}
    usual = {"Accept": "application/json, text/event-stream", "Authorization": f"Bearer {TOKEN}"}
    with http_server(folder, environment) as url:
        port = int(url.split(":")[2].split("/")[0])
        for headers, status in (
            ({"Authorization": ""}, 401),
            ({"Authorization": "Bearer wrong"}, 401),
            ({"Host": "evil.example:80"}, 421),
            ({"Host": f"evil.example:{port}"}, 421),
            ({"Origin": "https://evil.example"}, 403),
        ):
            answer = httpx2.post(url, json=body, headers={**usual, **headers})
            assert answer.status_code == status, headers
        addresses = {
            one.laddr.ip for one in psutil.net_connections("tcp") if one.laddr.port == port
        }
        assert addresses == {"127.0.0.1"}
        with socket.create_server(("127.0.0.1", 0)) as taken:
            number = str(taken.getsockname()[1])
            done = finished(sys.executable, *arguments(folder, "--http", number), **environment)
        assert (done.returncode, done.stdout) == (4, "")
        assert done.stderr.startswith(f"error: port {number}: cannot listen: Address already")


def calls():
    """Return the processes of calls that the servers of this test have not ended."""
    found = []
    for one in psutil.Process().children(recursive=True):
        with suppress(psutil.NoSuchProcess):
            if "tracekit.mcp.call" in one.cmdline():
                found.append(one)
    return found


async def until(condition):
    with anyio.fail_after(60):
        while not condition():
            await anyio.sleep(0.05)


def running(is_running):
    return lambda: bool(calls()) == is_running


def endless(client):
    return client.call_tool("sql", {"trace": "a.json", "statement": ENDLESS})


@_NIGHTLY
def test_a_long_call_is_stopped_and_blocks_nothing(over_stdio):
    async def run():
        async with over_stdio("--timeout", "5", mode="legacy") as client:
            answers = []

            async def ask():
                answers.append(text_of(await endless(client), fails=True))

            async with anyio.create_task_group() as group:
                group.start_soon(ask)
                await until(running(True))
                with pytest.warns(MCPDeprecationWarning):
                    await client.send_ping()
                listed = await client.call_tool("open", {})
                assert "a.json" in text_of(listed)
                assert not answers
            assert answers[0].startswith(
                "error: the call took longer than 5 s and was stopped\nnext: "
            )
            await until(running(False))

    anyio.run(run)


@_NIGHTLY
def test_a_cancelled_call_ends_its_process(over_stdio):
    async def run():
        async with over_stdio() as client:
            async with anyio.create_task_group() as group:
                group.start_soon(endless, client)
                await until(running(True))
                group.cancel_scope.cancel()
            await until(running(False))
            result = await client.call_tool(
                "sql", {"trace": "a.json", "statement": "SELECT 1 AS n"}
            )
            assert "n=1" in text_of(result)

    anyio.run(run)


@pytest.mark.parametrize("is_killed", [False, True])
@_NIGHTLY
def test_a_client_that_leaves_takes_its_calls_with_it(folder, environment, is_killed):
    """Also if the server is killed; its stdout contains only protocol lines."""
    with subprocess.Popen(
        [sys.executable, *arguments(folder)],
        env=environment,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        bufsize=1,
    ) as process:
        endless = {"trace": "a.json", "statement": ENDLESS}
        for message in (
            {"id": 1, "method": "initialize", "params": HELLO},
            {"method": "notifications/initialized"},
            {"id": 2, "method": "tools/call", "params": {"name": "sql", "arguments": endless}},
            {"id": 3, "method": "tools/call", "params": {"name": "open", "arguments": {}}},
        ):
            process.stdin.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
        assert json.loads(process.stdout.readline())["id"] == 1
        assert json.loads(process.stdout.readline())["id"] == 3
        anyio.run(until, running(True))
        left = calls()
        if is_killed:
            process.kill()
        else:
            process.stdin.close()
        messages = process.stdout.read().splitlines()
        assert all(json.loads(line)["jsonrpc"] == "2.0" for line in messages)
    _, alive = psutil.wait_procs(left, timeout=60)
    assert alive == []


@_NIGHTLY
def test_a_client_of_http_that_leaves_takes_its_call_with_it(folder, environment):
    """The client closes its connection during the call, without a message."""

    async def run(url):
        with suppress(httpx2.HTTPError, anyio.get_cancelled_exc_class()):
            async with httpx2.AsyncClient(timeout=60) as http, anyio.create_task_group() as group:
                group.start_soon(ask, http, url)
                await until(running(True))
                group.cancel_scope.cancel()
        await until(running(False))

    async def ask(http, url):
        headers = {"Authorization": f"Bearer {TOKEN}"}
        headers["Accept"] = "application/json, text/event-stream"
        first = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": HELLO}
        found = await http.post(url, json=first, headers=headers)
        headers |= {"mcp-session-id": found.headers["mcp-session-id"]}
        headers["mcp-protocol-version"] = "2025-06-18"
        notification = {"jsonrpc": "2.0", "method": "notifications/initialized"}
        await http.post(url, json=notification, headers=headers)
        call = {"name": "sql", "arguments": {"trace": "a.json", "statement": ENDLESS}}
        asked = {"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": call}
        await http.post(url, json=asked, headers=headers)

    with http_server(folder, environment) as url:
        anyio.run(run, url)


def asked(folder, environment, trace, *module):
    """Return the last line and stderr of a process of a call whose stdin stays open."""
    request = {"folders": [str(folder)], "tool": "open", "arguments": {"trace": trace}}
    pipes = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.PIPE)
    command = [sys.executable, "-P", *module]
    with subprocess.Popen(command, env=environment, **pipes, text=True) as process:
        process.stdin.write(json.dumps(request) + "\n")
        process.stdin.flush()
        process.wait(60)
        return json.loads(process.stdout.read().splitlines()[-1]), process.stderr.read()


def test_a_link_created_after_the_check_cannot_be_followed(folder, environment):
    """A user who can write to the folder can replace a file by a link after the check."""
    outside = shutil.copyfile(folder / "a.json", folder.parent / "outside.json")
    (folder / "link.json").symlink_to(outside)
    passed = "answers.allowed = lambda folders, name: folders[0] / name"
    script = f"from tracekit.mcp import answers, call; {passed}; call.main()"
    for trace, is_error in (("a.json", False), ("link.json", True)):
        answer, _ = asked(folder, environment, trace, "-c", script)
        assert answer["is_error"] is is_error, answer
        assert is_error is ("Permission denied" in answer["text"])


@_NIGHTLY
def test_printed_text_is_not_part_of_the_protocol(folder, environment):
    """A log line of the call, for one, of a cache that everybody can write."""
    cache = Path(environment["TRACEKIT_CACHE_DIR"])
    cache.mkdir()
    cache.chmod(0o777)
    answer, logged = asked(folder, environment, "a.json", "-m", "tracekit.mcp.call")
    assert not answer["is_error"]
    assert "every user can write to this cache folder" in logged


@_NIGHTLY
def test_the_number_of_concurrent_calls_is_limited(over_stdio):
    async def run():
        async with over_stdio() as client:
            async with anyio.create_task_group() as group:
                for _ in range(6):
                    group.start_soon(client.call_tool, "explain", {"topic": "timeline"})
                most = 0
                for _ in range(40):
                    await anyio.sleep(0.02)
                    most = max(most, len(calls()))
                assert most <= served.AT_ONCE
            # Other tests of this process may have left servers.
            (server,) = (one for one in psutil.Process().children() if "mcp" in one.cmdline())
            before = server.num_fds()
            for _ in range(2):
                await client.call_tool("explain", {"topic": "timeline"})
            assert server.num_fds() <= before
            assert calls() == []

    anyio.run(run)


@_NIGHTLY
def test_without_the_extra_an_error_is_shown(tmp_path, folder):
    (tmp_path / "mcp_types.py").write_text("raise ImportError(name='mcp_types')")
    done = finished(sys.executable, "-m", "tracekit", "mcp", folder, PYTHONPATH=str(tmp_path))
    assert (done.returncode, done.stdout) == (2, "")
    assert "mcp needs the extra `mcp`" in done.stderr
    assert "pip install '.[mcp]'" in done.stderr


@_NIGHTLY
def test_settings_for_clients(cli, folder):
    done = cli("mcp", folder, "--install")
    assert done.exit_code == 0
    blocks = done.stdout.split("\n\n")
    usual, vscode = (json.loads(block) for block in blocks if block.startswith("{"))
    entry = usual["mcpServers"]["tracekit"]
    assert vscode["servers"]["tracekit"] == {"type": "stdio", **entry}
    import tomllib

    (codex,) = (tomllib.loads(block) for block in blocks if block.startswith("[mcp_servers"))
    assert codex["mcp_servers"]["tracekit"] == entry
    assert entry["args"][-1] == str(folder)
    skill = done.stdout.split("&& cp ")[1].split()[0]
    assert Path(skill).read_text("utf-8").startswith("---\nname: tracekit\ndescription: ")
    assert cli("mcp", folder / "a.json").exit_code == 2
