"""Combinations of packages that install together and do not work together."""

from __future__ import annotations

from dataclasses import dataclass
from importlib import metadata

from llama_index.core.llms.llm import LLM

from pkv_agents import SessionError


@dataclass(frozen=True, slots=True)
class Broken:
    """A package of LlamaIndex that cannot use a client library as new as this.

    Attributes:
        module: Where its classes are.
        package: Its distribution.
        last: The last version of it that is known to be broken with that client.
        client: The client's distribution.
        since: The first version of the client that it cannot use.
    """

    module: str
    package: str
    last: tuple[int, ...]
    client: str
    since: tuple[int, ...]


# It builds messages by calling what is a union of types since 2.0, and passes a parameter that 1.0 removed; its
# metadata allows any version.
BROKEN: tuple[Broken, ...] = (
    Broken("llama_index.llms.anthropic", "llama-index-llms-anthropic", (0, 12, 3), "anthropic", (1, 0)),
)


def check_versions(llm: LLM) -> None:
    """Refuse a model whose package and client library do not fit each other.

    Raises:
        SessionError: They do not; the message names both versions.
    """
    modules = [cls.__module__ for cls in type(llm).__mro__]
    for broken in BROKEN:
        if not any(module == broken.module or module.startswith(f"{broken.module}.") for module in modules):
            continue
        package, client = _version(broken.package), _version(broken.client)
        if package is None or client is None:
            continue
        if _numbers(package) <= broken.last and _numbers(client) >= broken.since:
            before = ".".join(map(str, broken.since))
            raise SessionError(
                f"{broken.package} {package} does not work with {broken.client} {client}: it fails on the first "
                f"message. Install '{broken.client}<{before}', or a newer {broken.package}"
            )


def _version(distribution: str) -> str | None:
    try:
        return metadata.version(distribution)
    except metadata.PackageNotFoundError:
        return None


def _numbers(version: str) -> tuple[int, ...]:
    """The leading numbers of a version: `1.2.3rc1` is 1, 2."""
    numbers: list[int] = []
    for part in version.split("."):
        if not part.isdecimal():
            break
        numbers.append(int(part))
    return tuple(numbers)
