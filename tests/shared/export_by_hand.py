"""A small SQLite export of Nsight Systems: rows that can be checked by hand."""

FIRST, SECOND = (1 << 48) | 100 << 24, (1 << 48) | 200 << 24
"""Processes 100 and 200: each has one GPU, which it calls 0."""

NAMES = [
    "cudaLaunchKernel_v7000",
    "cudaMemcpyAsync_v3020",
    "cuLaunchKernelEx",
    "cudaStreamGetCaptureInfo_v2_v11030",
    "void gemm<(int)2>(float*)",
    "gemm",
    "tk/step",
    "main [é]",
    "NCCL",
    "cudaStreamSynchronize_v3020",
    "cudaStreamWaitEvent_v3020",
    "cudaEventSynchronize_v3020",
]
ID = {name: number for number, name in enumerate(NAMES, 1)}

WORK = {"contextId": 1, "globalPid": FIRST}


def work(start, end, stream, correlation, **more):
    """Return the arguments of all work of a device."""
    return {"start": start, "end": end, "deviceId": 0, "streamId": stream} | {
        "correlationId": correlation, **WORK, **more
    }  # fmt: skip


def gemm(*place, **more):
    names = {"demangledName": ID["void gemm<(int)2>(float*)"], "shortName": ID["gemm"]}
    return work(*place, **names, **more)


def api(start, end, name, correlation, thread=FIRST | 101):
    return {"start": start, "end": end, "globalTid": thread, "nameId": ID[name]} | {
        "correlationId": correlation
    }


def ranged(start, end, text, **more):
    return {"start": start, "end": end, "eventType": 59, "text": text, "globalTid": FIRST | 101} | {
        "textId": None, "domainId": 0, **more
    }  # fmt: skip


def export(**tables):
    """Return the tables that nearly every export has, and others."""
    return {
        "StringIds": [{"id": number, "value": name} for name, number in ID.items()],
        "META_DATA_EXPORT": [
            {"name": "EXPORT_PRODUCT_VERSION", "value": "2026.2.1.210"},
            {"name": "EXPORT_SCHEMA_VERSION", "value": "3.25.0"},
        ],
        **tables,
    }
