"""Cache keys: requests that share a head are led to one cache, and no cache gets more of them than it serves.

Some providers route requests by a key (`Profile.cache_key` names the parameter). The best one is the same for all that
share a long prefix, which is a tenant's agent: its instructions and tools. The session's own baseline stands behind
these, so it has no part in the key. A key with too much traffic overflows to other machines (`Profile.cache_key_rpm`),
so sessions are spread over shards; one session always stays on its own.

A key holds a hash and a number, and no name, text or id. A hash is no encryption: who knows all that went in can tell
that it did.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable

from .errors import ProfileError
from .profiles import Profile
from .tools import ToolSpec, tool_json


def cache_key(
    tenant: str,
    instructions: str,
    *,
    tools: Iterable[ToolSpec] = (),
    session: str = "",
    shards: int = 1,
) -> str:
    """The cache key of a session's requests.

    Args:
        tenant: Whose data it is; other tenants get other keys, also for the same head.
        instructions: The shared head's text, without the session's baseline.
        tools: The shared head's tools, in the order in which they go out.
        session: What names the session; it decides the shard, and nothing else.
        shards: Over how many keys the sessions are spread; see `shards_for`.

    Returns:
        At most 40 characters: letters, digits and hyphens. The same in every process.

    Raises:
        ProfileError: Less than one shard.
        ToolError: A tool is not plain JSON data.
    """
    if shards < 1:
        raise ProfileError(f"shards is {shards}; a cache key needs at least 1")
    shared = json.dumps([tenant, instructions, [tool_json(tool) for tool in tools]])
    return f"pkv-{_hash(shared)[:24]}-{int(_hash(session)[:12], 16) % shards}"


def shards_for(requests_per_minute: float, profile: Profile) -> int:
    """Over how many keys a tenant's agent should be spread.

    Args:
        requests_per_minute: How many are expected of all its sessions together, at busy times.
        profile: The provider.

    Returns:
        At least 1; 1 where the provider has no such limit. More shards than needed cost hits: each has its own cache.
    """
    if profile.cache_key_rpm is None:
        return 1
    return max(1, -int(-requests_per_minute // profile.cache_key_rpm))


def _hash(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


__all__ = ["cache_key", "shards_for"]
