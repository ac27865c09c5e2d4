"""The allocator's setting, in a process of its own: it cannot be taken back."""

from __future__ import annotations

import platform
import subprocess
import sys

import pytest


def reuses_a_freed_buffer(setting: str) -> bool:
    program = f"""
from pkv_agents.kv import keep_freed_memory
import ctypes
{setting}
libc = ctypes.CDLL("libc.so.6")
libc.malloc.restype, libc.malloc.argtypes, libc.free.argtypes = ctypes.c_void_p, [ctypes.c_size_t], [ctypes.c_void_p]
size = 64 << 20
block = libc.malloc(size)
ctypes.memset(block, 1, size)
libc.free(block)
pages = lambda: int(open("/proc/self/statm").read().split()[1])
print(pages() * 4096 > size)
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=120)
    return done.stdout.strip() == "True"


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="only glibc can be set")
def test_freed_memory_is_kept() -> None:
    assert reuses_a_freed_buffer("assert keep_freed_memory()")
