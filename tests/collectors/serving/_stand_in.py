"""A stand-in for the serving engines: speaks the protocol of each, and computes nothing.

    python _stand_in.py ENGINE PORT_FILE [QUIRKS_JSON]

Written from the engines' documentation and sources, quirks included (LightLLM `api_http.py`,
`api_lightllm.py`, `utils/profiler.py`; vLLM `serving_completion.py`, `profiler/wrapper.py`; SGLang
`http_server.py`, `scheduler_profiler_mixin.py`; TGI `router/src/server.rs`; transformers
`cli/serving/completion.py`). `POST /stand_in` with a JSON object replaces the quirks; `GET
/stand_in` returns the requests that the server has received.
"""

import asyncio
import gzip
import json
import os
import resource
import signal
import socket
import struct
import sys
import time
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

VOCABULARY = 32_000
MODEL = "stand-in-7b"


@dataclass
class Quirks:
    """Behavior of the server; `behavior` has an item per request, used cyclically."""

    behavior: list[str] = field(default_factory=lambda: ["ok"])
    token_gap_s: float = 0.0
    tokens_per_event: int = 1
    extra_prompt_tokens: int = 0
    profiling: str | None = None
    trace_dir: str | None = None
    trace_count: int = 1
    trace_delay_s: float = 0.0
    trace_grow_s: float = 0.0
    retry_after: str | None = None
    unhealthy_s: float = 0.0
    stop_after_tokens: int | None = None
    has_models: bool = True
    leaks: bool = False
    port: int = 0
    host: str = "127.0.0.1"


def event_of(value):
    return b"data: " + json.dumps(value).encode() + b"\n\n"


def usage(prompt, completion):
    counts = {"prompt_tokens": prompt, "completion_tokens": completion}
    return {**counts, "total_tokens": prompt + completion}


class Engine:
    generate_path = "/v1/completions"
    health_path = "/health"

    def __init__(self, quirks):
        self.quirks = quirks
        self.begin_s = time.monotonic()
        self.count = self.in_flight = self.most_in_flight = 0
        self.calls = []
        self.bodies = []
        self.profile_folder = Path()
        self.background = set()

    async def handle(self, reader, writer):
        head = (await reader.readuntil(b"\r\n\r\n")).decode()
        method, path, _ = head.split(" ", 2)
        length = head.lower().partition("content-length:")[2].partition("\r\n")[0]
        body = json.loads(await reader.readexactly(int(length or 0)) or "null")
        status, answer, headers = 200, None, {}
        if path == "/stand_in":
            if method == "POST":
                self.__init__(Quirks(**body))
            names = ("calls", "count", "most_in_flight")
            answer = {name: getattr(self, name) for name in names} | {"bodies": self.bodies[:3]}
        else:
            self.calls.append(f"{method} {path}")
            if self.quirks.leaks:
                # Some servers log their arguments and their requests.
                os.write(1, f"{sys.argv} {dict(os.environ)} {head} {body}\n".encode())
            if (
                path == self.health_path
                and time.monotonic() - self.begin_s < self.quirks.unhealthy_s
            ):
                status, answer = 503, {"message": "Error"}
            elif method == "POST" and path == self.generate_path:
                self.in_flight += 1
                self.most_in_flight = max(self.most_in_flight, self.in_flight)
                try:
                    status, answer = await self.generate(writer, head, body)
                finally:
                    self.in_flight -= 1
                if self.quirks.retry_after is not None:
                    headers["Retry-After"] = self.quirks.retry_after
            else:
                status, answer = await self.other(method, path, body)
        if answer is not None:
            kind = "text/plain" if isinstance(answer, str) else "application/json"
            data = (answer if isinstance(answer, str) else json.dumps(answer)).encode()
            headers |= {"Content-Length": len(data), "Content-Type": kind, "Connection": "close"}
            lines = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
            writer.write(f"HTTP/1.1 {status} Status\r\n{lines}\r\n".encode() + data)
            await writer.drain()

    async def generate(self, writer, head, body):
        """Write a stream, or return the status and text of an error."""
        behavior = self.quirks.behavior[self.count % len(self.quirks.behavior)]
        self.count += 1
        self.bodies.append(body)
        if behavior.isdecimal():
            return int(behavior), {"message": "the server is busy"}
        if behavior == "die":
            os.kill(os.getpid(), signal.SIGKILL)
        if behavior == "echo":
            secrets = [head, body, *sys.argv, os.environ.get("HF_TOKEN")]
            return 400, {"message": [str(part)[:190] for part in secrets]}
        refusal = self.refusal(body)
        if refusal is not None:
            return refusal
        writer.write(
            b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream; charset=utf-8\r\n"
            b"Transfer-Encoding: chunked\r\nConnection: close\r\n\r\n"
        )
        sent = 0
        async for event in self.events(body):
            if sent == max(1, self.new_tokens(body) // 2) and behavior == "reset":
                # A crashed server ends its connections with a reset.
                writer.get_extra_info("socket").setsockopt(
                    socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0)
                )
                writer.transport.abort()
                raise ConnectionError
            data = event_of({"error": {"message": head}}) if behavior == "echo_event" else event
            writer.write(b"%x\r\n%b\r\n" % (len(data), data))
            await writer.drain()
            sent += 1
        writer.write(b"0\r\n\r\n")
        await writer.drain()
        return 200, None

    async def paced(self, count):
        total = 0
        while total < count:
            if self.quirks.token_gap_s:
                await asyncio.sleep(self.quirks.token_gap_s)
            total = min(count, total + self.quirks.tokens_per_event)
            yield total

    def prompt_tokens(self, prompt):
        """Count a word as one and a half tokens, so that the client has to ask."""
        count = len(prompt) if isinstance(prompt, list) else len(prompt.split()) * 3 // 2
        return count + self.quirks.extra_prompt_tokens

    async def write_traces(self, name):
        """Write a trace per rank into the profile's folder, where it may appear late and grow."""
        for rank in range(self.quirks.trace_count):
            await asyncio.sleep(self.quirks.trace_delay_s)
            self.profile_folder.mkdir(parents=True, exist_ok=True)
            event = {"ph": "X", "cat": "cpu_op", "pid": 1, "tid": 1, "dur": 2.0, "name": "aten::mm"}
            value = {
                "schemaVersion": 1,
                "distributedInfo": {
                    "rank": rank, "world_size": self.quirks.trace_count, "backend": "nccl"
                },
                "traceEvents": [
                    {**event, "ts": 10.0 * index, "args": {"External id": index}}
                    for index in range(200)
                ],
            }  # fmt: skip
            if self.quirks.leaks:
                value["environment"] = {"argv": sys.argv, **os.environ}
            data = gzip.compress(json.dumps(value).encode())
            parts = 4 if self.quirks.trace_grow_s else 1
            size = len(data) // parts + 1
            path = self.profile_folder / name.format(rank=rank, ns=time.time_ns())
            with path.open("wb") as file:
                for start in range(0, len(data), size):
                    file.write(data[start : start + size])
                    file.flush()
                    await asyncio.sleep(self.quirks.trace_grow_s / parts)

    # The protocol:

    def new_tokens(self, body):
        wanted = body["parameters"]["max_new_tokens"] if "parameters" in body else 0
        wanted = wanted or body["max_tokens"]
        return min(wanted, self.quirks.stop_after_tokens or wanted)

    def refusal(self, body):
        """Return status and answer of an error, or None."""

    def events(self, body):
        raise NotImplementedError

    async def other(self, method, path, body):
        del method, body
        return (200, "") if path == "/health" else (404, {"detail": "Not Found"})


class LightLlm(Engine):
    generate_path = "/generate_stream"

    def refusal(self, body):
        inputs = body["inputs"]
        if isinstance(inputs, list) and max(inputs) >= VOCABULARY:
            return 400, {"message": "prompt List[int] format contain id > vocab_size"}
        return None

    async def events(self, body):
        wanted = self.new_tokens(body)
        prompt = self.prompt_tokens(body["inputs"])
        async for count in self.paced(wanted):
            counts = {"count_output_tokens": count, "prompt_tokens": prompt}
            value = {
                "token": {"id": 7, "text": "é", "logprob": -0.5, "special": False, **counts},
                "generated_text": None,
                "finished": count == wanted,
                "finish_reason": "length" if count == wanted else None,
                "details": None,
            }
            yield b"data:" + json.dumps(value, ensure_ascii=False).encode() + b"\n\n"

    async def other(self, method, path, body):
        if method == "GET" and path in ("/profiler_start", "/profiler_stop"):
            if not self.quirks.profiling:
                return 400, {"message": "Profiling support not enabled"}
            if path == "/profiler_stop" and self.quirks.profiling == "torch_profiler":
                self.profile_folder = Path(
                    self.quirks.trace_dir or os.environ["LIGHTLLM_TRACE_DIR"]
                )
                # The answer does not wait for the inference loop to write the traces.
                name = "lightllm-model_backend-node0_dev{rank}_tid9{rank}.{ns}.pt.trace.json.gz"
                task = asyncio.create_task(self.write_traces(name))
                self.background.add(task)
            return 200, {"status": "ok"}
        if path == "/get_server_info":
            return 200, {
                "model_dir": f"/models/{MODEL}",
                "tp": self.quirks.trace_count,
                "nnodes": 1,
                "data_type": "bfloat16",
                "max_req_total_len": 2048,
                "enable_profiling": self.quirks.profiling,
                "hf_token": "hf_very_secret",
                **({"argv": sys.argv, "env": dict(os.environ)} if self.quirks.leaks else {}),
            }
        return await super().other(method, path, body)


class Completions(Engine):
    """The completions API as vLLM and SGLang speak it."""

    async def events(self, body):
        wanted = self.new_tokens(body)
        prompt = self.prompt_tokens(body["prompt"])
        options = body.get("stream_options") or {}
        async for count in self.paced(wanted):
            choice = {"index": 0, "text": " é" if count % 2 else "", "logprobs": None}
            choice["finish_reason"] = "length" if count == wanted else None
            value = {"id": "cmpl-1", "object": "text_completion", "choices": [choice]}
            if options.get("continuous_usage_stats"):
                value["usage"] = usage(prompt, count)
            yield event_of(value)
        if options.get("include_usage"):
            yield event_of({"id": "cmpl-1", "choices": [], "usage": usage(prompt, wanted)})
        yield b"data: [DONE]\n\n"

    def refusal(self, body):
        if body.get("model") != MODEL:
            return 404, {"error": {"message": f"The model `{body.get('model')}` does not exist."}}
        return None

    async def other(self, method, path, body):
        if path == "/v1/models":
            card = {"id": MODEL, "object": "model", "max_model_len": 2048, "root": "/models/x"}
            return 200, {"object": "list", "data": [card]}
        return await super().other(method, path, body)


class Vllm(Completions):
    async def other(self, method, path, body):
        if path == "/version":
            return 200, {"version": "0.32.0"}
        if method == "POST" and self.quirks.profiling and path.endswith("_profile"):
            if path == "/stop_profile":
                # Answered once the files are written; the front end writes one, too.
                variable = os.environ.get("VLLM_TORCH_PROFILER_DIR")
                self.profile_folder = Path(self.quirks.trace_dir or variable or "")
                await self.write_traces("rank{rank}.{ns}.pt.trace.json.gz")
                await self.write_traces("host_1.async_llm.{ns}.pt.trace.json.gz")
            return 200, ""
        return await super().other(method, path, body)


class Sglang(Completions):
    async def other(self, method, path, body):
        if path == "/server_info":
            return 200, {
                "model_path": f"/models/{MODEL}",
                "tp_size": self.quirks.trace_count,
                "api_key": "sk-very-secret",
                "attention_backend": "flashinfer",
                "internal_states": [{"large": "x" * 1000}],
            }
        if path == "/start_profile":
            self.profile_folder = Path(body["output_dir"])
            return 200, "Start profiling.\n"
        if path == "/stop_profile":
            await self.write_traces("1700000000.5-TP-{rank}.trace.json.gz")
            return 200, "Stop profiling. This will take some time.\n"
        return await super().other(method, path, body)


class Tgi(Engine):
    generate_path = "/generate_stream"

    def refusal(self, body):
        if not isinstance(body["inputs"], str):
            return 422, "Failed to deserialize the JSON body: inputs: invalid type: sequence"
        return None

    async def events(self, body):
        wanted = self.new_tokens(body)
        details = {"finish_reason": "length", "generated_tokens": wanted, "seed": None}
        details["input_length"] = self.prompt_tokens(body["inputs"])
        yield b":\n\n"
        async for count in self.paced(wanted):
            is_last = count == wanted
            value = {
                "index": count,
                "token": {"id": 7, "text": " é", "logprob": -0.5, "special": False},
                "generated_text": " é" * wanted if is_last else None,
                "details": details if is_last and body["parameters"].get("details") else None,
            }
            yield b"data:" + json.dumps(value).encode() + b"\n\n"

    async def other(self, method, path, body):
        if path == "/info":
            return 200, {"model_id": MODEL, "max_total_tokens": 2048, "version": "3.3.4"}
        return await super().other(method, path, body)


class OpenAi(Engine):
    """The completions API as `transformers serve` speaks it: text only, no `[DONE]`."""

    health_path = "/v1/models"

    def refusal(self, body):
        known = {"model", "prompt", "max_tokens", "temperature", "stream", "stream_options"}
        if set(body) - known:
            return 422, {"detail": f"Unexpected fields in the request: {set(body) - known}"}
        if not isinstance(body["prompt"], str):
            return 400, {"detail": "prompt must be a string."}
        return None

    async def events(self, body):
        wanted = self.new_tokens(body)
        async for _ in self.paced(wanted):
            yield event_of({"id": "req-1", "choices": [{"text": " é", "index": 0}]})
        last = {"text": "", "index": 0, "finish_reason": "length"}
        counts = usage(self.prompt_tokens(body["prompt"]), wanted)
        yield event_of({"id": "req-1", "choices": [last], "usage": counts})

    async def other(self, method, path, body):
        if path == "/v1/models" and self.quirks.has_models:
            return 200, {"object": "list", "data": []}
        return await super().other(method, path, body)


async def serve(engine, port_file):
    async def on_connection(reader, writer):
        with suppress(ConnectionError, asyncio.IncompleteReadError):
            await engine.handle(reader, writer)
        writer.close()

    quirks = engine.quirks
    server = await asyncio.start_server(on_connection, quirks.host, quirks.port, backlog=2048)
    # Renamed, so that the file is never seen empty.
    partial = port_file.with_suffix(".partial")
    partial.write_text(str(server.sockets[0].getsockname()[1]))
    partial.rename(port_file)
    async with server:
        await server.serve_forever()


if __name__ == "__main__":
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    engines = {kind.__name__.lower(): kind for kind in (LightLlm, Vllm, Sglang, Tgi, OpenAi)}
    given = json.loads(sys.argv[3]) if len(sys.argv) > 3 else {}
    asyncio.run(serve(engines[sys.argv[1]](Quirks(**given)), Path(sys.argv[2])))
