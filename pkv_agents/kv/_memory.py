"""The C library's allocator, set for a model on a CPU."""

from __future__ import annotations

import ctypes
import sys

_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD = -1, -3
_LARGEST = 2**31 - 1  # mallopt takes an int
_THRESHOLDS = (2**30, 2**25)  # some versions of glibc refuse more than 32 MiB


def keep_freed_memory() -> bool:
    """Let the process keep the memory that it frees, instead of giving it back and asking again at each operation.

    A forward on a CPU makes and frees buffers of megabytes hundreds of times. glibc maps and unmaps each of them, so
    each is faulted in page by page; where a page fault is dear, as in a virtual machine, that can take as long as the
    arithmetic. The price is that the process stays as large as its largest moment. Call it once, before the model is
    loaded. It holds for the whole process, which is why nothing in the library calls it for you. The environment
    variables MALLOC_MMAP_THRESHOLD_ and MALLOC_TRIM_THRESHOLD_ do the same from outside.

    Returns:
        Whether it could be set: False where the C library is not glibc.
    """
    if not sys.platform.startswith("linux"):
        return False
    try:
        mallopt = ctypes.CDLL("libc.so.6").mallopt
    except (OSError, AttributeError):
        return False
    mapped = any(mallopt(_M_MMAP_THRESHOLD, size) for size in _THRESHOLDS)
    return bool(mallopt(_M_TRIM_THRESHOLD, _LARGEST)) and mapped
