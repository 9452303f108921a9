"""A stand-in for the serving engines: speaks the protocol of each, and computes nothing.

    python _stand_in.py ENGINE PORT_FILE [QUIRKS_JSON]

Written from the engines' own documentation and sources, quirks included (LightLLM `api_http.py`,
`api_lightllm.py`, `utils/profiler.py`; vLLM `serving_completion.py`, `profiler/wrapper.py`; SGLang
`http_server.py`, `scheduler_profiler_mixin.py`; TGI `router/src/server.rs`; transformers
`cli/serving/completion.py`).
Only the standard library, and sockets by hand: packets and resets have to be exact.

`POST /stand_in` with a JSON object replaces the quirks; `GET /stand_in` tells what was seen.
"""

from __future__ import annotations

import asyncio
import json
import sys
from pathlib import Path

from _stand_in_engine import Connection, Engine, GoneError, Quirks
from _stand_in_engines import LightLlm, OpenAi, Sglang, Tgi, Vllm


async def serve(engine: Engine, port_file: Path) -> None:
    async def on_connection(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            await engine.handle(Connection(reader, writer))
        except (GoneError, ConnectionError, asyncio.IncompleteReadError):
            pass
        finally:
            writer.close()

    server = await asyncio.start_server(
        on_connection, engine.quirks.host, engine.quirks.port, backlog=2048
    )
    port = server.sockets[0].getsockname()[1]
    # Renamed, so that the file is never seen without its content.
    partial = port_file.with_suffix(".partial")
    partial.write_text(str(port))
    partial.rename(port_file)
    async with server:
        await server.serve_forever()


if __name__ == "__main__":
    import resource

    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    engines = {kind.name: kind for kind in (LightLlm, Vllm, Sglang, Tgi, OpenAi)}
    given = json.loads(sys.argv[3]) if len(sys.argv) > 3 else {}
    asyncio.run(serve(engines[sys.argv[1]](Quirks(**given)), Path(sys.argv[2])))
