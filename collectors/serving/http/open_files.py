"""How many files, and so connections, this process may have open at once."""

from __future__ import annotations

from tracekit.errors import WorkloadError


def raise_file_limit(connection_count: int) -> None:
    """Make sure that so many connections can be open at once.

    Raises:
        WorkloadError: the system does not allow it.
    """
    try:
        import resource
    except ImportError:  # not a Unix
        return
    needed = connection_count + 128
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY or soft >= needed:
        return
    if hard != resource.RLIM_INFINITY and hard < needed:
        raise WorkloadError(
            f"{connection_count} requests in flight need {needed} open files, and the system "
            f"allows {hard}",
            hint="raise it with ulimit -Hn, or bound the requests in flight with --concurrency",
        )
    resource.setrlimit(resource.RLIMIT_NOFILE, (needed, hard))
