"""What no tracked file may hold: paths of somebody's machine, and hosts of package registries."""

from __future__ import annotations

import re
from pathlib import Path

from tests.guards.repo import files, relative

MACHINE_PATHS = re.compile(r"(?<![\w.:/~$}-])/(?:home|Users|root|work|opt|mnt|media|srv)/[\w.]|[A-Z]:\\Users\\")
REGISTRIES = re.compile(
    r"pypi\.org|pythonhosted\.org|npmjs\.(?:org|com)|download\.pytorch\.org|(?:extra-)?index-url|conda\.anaconda\.org"
)
HERE = Path(__file__).resolve()


def lines() -> list[tuple[str, str]]:
    """Every line of every tracked text file but this one, with its place."""
    found: list[tuple[str, str]] = []
    for path in files():
        content = path.read_bytes()
        if path == HERE or b"\0" in content[:8192]:
            continue
        text = content.decode("utf-8")  # a tracked text file is UTF-8
        found += [(f"{relative(path)}:{number}", line) for number, line in enumerate(text.splitlines(), 1)]
    return found


def test_no_path_of_a_machine() -> None:
    assert [place for place, line in lines() if MACHINE_PATHS.search(line)] == []


def test_no_registry_host() -> None:
    assert [place for place, line in lines() if REGISTRIES.search(line)] == []


def test_the_patterns_see_what_they_should() -> None:
    assert MACHINE_PATHS.search("open('/home/ann/x')")
    assert MACHINE_PATHS.search("cache=/root/.cache")
    assert not MACHINE_PATHS.search("http://host/work/1 and ./work/1 and $HOME/work/1")
