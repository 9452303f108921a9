"""Stores: DuckDB files that are whole or absent, and the cache of stores.

The package ``duckdb`` is imported as a whole. Its compiled module alone starts 0.04 s of CPU sooner
(2 to 4 % of a breakdown), by private parts that may be others in any version.
"""

from __future__ import annotations

from tracekit.database.building import Build, build_store, build_temporary
from tracekit.database.cache import (
    CachedStore,
    cache_dir,
    cached_store_path,
    clear_cache,
    fetch_store,
    forget,
    forget_older,
    is_private,
    is_writable_by_all,
    list_cached,
    touch,
)
from tracekit.database.connections import (
    EMPTY_STORE,
    LIBRARY,
    SCRATCH,
    SESSION,
    SMALL_SOURCE_BYTES,
    SPILL_LIMIT,
    DamagedStoreError,
    Session,
    add_session,
    bounded,
    connect,
    create_tables,
    cursor_of,
    execute_own,
    explained,
    lock,
    look_in_session_first,
    session_of,
    set_first_limit,
    set_limit_of_questions,
    with_more_room,
    with_room,
)
from tracekit.database.opening import Check, attach_library, open_store
from tracekit.storage.temp_dirs import atomic_path, temporary_folder, temporary_place

__all__ = [
    "EMPTY_STORE",
    "LIBRARY",
    "SCRATCH",
    "SESSION",
    "SMALL_SOURCE_BYTES",
    "SPILL_LIMIT",
    "Build",
    "CachedStore",
    "Check",
    "DamagedStoreError",
    "Session",
    "add_session",
    "atomic_path",
    "attach_library",
    "bounded",
    "build_store",
    "build_temporary",
    "cache_dir",
    "cached_store_path",
    "clear_cache",
    "connect",
    "create_tables",
    "cursor_of",
    "execute_own",
    "explained",
    "fetch_store",
    "forget",
    "forget_older",
    "is_private",
    "is_writable_by_all",
    "list_cached",
    "lock",
    "look_in_session_first",
    "open_store",
    "session_of",
    "set_first_limit",
    "set_limit_of_questions",
    "temporary_folder",
    "temporary_place",
    "touch",
    "with_more_room",
    "with_room",
]
