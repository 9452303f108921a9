"""Stores: DuckDB files that are whole or absent, and the cache of stores."""

from __future__ import annotations

from tracekit.database.building import Build, build_store, build_temporary
from tracekit.database.cache import (
    CachedStore,
    cache_dir,
    cached_store_path,
    ceilings_dir,
    clear_cache,
    forget,
    forget_older,
    is_private,
    is_writable_by_all,
    list_cached,
    touch,
)
from tracekit.database.connections import (
    SCRATCH,
    create_run_tables,
    create_tables,
    cursor_of,
    lock,
)
from tracekit.database.disk_errors import explained
from tracekit.database.fetching import fetch_store
from tracekit.database.limits import (
    SMALL_SOURCE_BYTES,
    set_first_limit,
    set_limit_of_questions,
    set_limits,
    with_more_room,
    with_room,
)
from tracekit.database.opening import Check, DamagedStoreError, open_store
from tracekit.database.parsed import execute
from tracekit.storage.passing_folders import temporary_folder

__all__ = [
    "SCRATCH",
    "SMALL_SOURCE_BYTES",
    "Build",
    "CachedStore",
    "Check",
    "DamagedStoreError",
    "build_store",
    "build_temporary",
    "cache_dir",
    "cached_store_path",
    "ceilings_dir",
    "clear_cache",
    "create_run_tables",
    "create_tables",
    "cursor_of",
    "execute",
    "explained",
    "fetch_store",
    "forget",
    "forget_older",
    "is_private",
    "is_writable_by_all",
    "list_cached",
    "lock",
    "open_store",
    "set_first_limit",
    "set_limit_of_questions",
    "set_limits",
    "temporary_folder",
    "touch",
    "with_more_room",
    "with_room",
]
