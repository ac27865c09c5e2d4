"""What `qualify` found out about a model, as a small file that can be required."""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, cast

from pkv_agents.errors import UnsupportedModelError

FORMAT = "pkv-agents/qualification"
VERSION = 1
ENOUGH = 0.85
"""Share of the judged cases from which a mode counts as followed."""
LEAST = 3
"""Judged cases from which a share says anything."""
CLOSE = 0.05
"""Divergence from a clean prefill, in nats, up to which a spliced skill counts as close."""


@dataclass(frozen=True, slots=True)
class Check:
    """One check.

    Attributes:
        name: Which.
        passed: Cases in which the model decided as it should.
        judged: Cases that were judged: those that a clean prefill gets right both ways.
        value: What was measured, where that is no share.
    """

    name: str
    passed: int
    judged: int
    value: float | None = None

    @property
    def share(self) -> float | None:
        """Passed of judged; None where nothing could be judged."""
        return self.passed / self.judged if self.judged else None

    @property
    def is_followed(self) -> bool:
        """Whether enough cases were judged, and enough of them passed."""
        return self.judged >= LEAST and (self.share or 0.0) >= ENOUGH

    def __str__(self) -> str:
        """One line."""
        if self.value is not None:
            return f"{self.name:<28} {self.value:.3g}"
        share = "not judged" if self.share is None else f"{self.share:.2f}"
        few = f"; at least {LEAST} must be judged" if self.judged < LEAST else ""
        return f"{self.name:<28} {share}  ({self.passed} of {self.judged}{few})"


@dataclass(frozen=True, slots=True)
class Qualification:
    """What a battery found.

    Attributes:
        fingerprint: The model's: configuration and weights.
        adapter: Name of its adapter, empty if none.
        dtype: Type of its keys and values.
        checks: What was checked.
    """

    fingerprint: str
    adapter: str
    dtype: str
    checks: tuple[Check, ...]

    def check(self, name: str) -> Check | None:
        """A check by its name."""
        return next((check for check in self.checks if check.name == name), None)

    @property
    def reference(self) -> str:
        """The mode that cheaper ones are held against: errata if this model follows them, else a clean prefill."""
        found = self.check("errata followed")
        return "erratum" if found is not None and found.is_followed else "full"

    def allows(self, mode: str) -> bool:
        """Whether a mode was found to work on this model.

        Args:
            mode: An edit mode, or `skills`. `full` always works; `auto` works where a probe finds it.
        """
        word = mode.partition("@")[0]
        if word in {"full", "auto"}:
            return True
        if word == "skills":
            found = self.check("splice divergence")
            return found is not None and found.value is not None and found.value <= CLOSE
        found = self._needed(word)
        return bool(found) and all(check is not None and check.is_followed for _, check in found)

    def _needed(self, word: str) -> list[tuple[str, Check | None]]:
        """The checks on which a mode rests, by name."""
        names = {
            "erratum": ("errata followed",),
            "in_place": ("in place, field before", "in place, field after"),
            "field_erratum": ("errata followed",),
            "skills": ("splice divergence",),
        }.get(word, ())
        return [(name, self.check(name)) for name in names]

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the report; a file that is there is replaced in one step."""
        target = Path(path)
        data = {"format": FORMAT, "version": VERSION, **asdict(self), "reference": self.reference}
        with tempfile.NamedTemporaryFile("w", encoding="utf-8", dir=target.parent, delete=False) as file:
            file.write(json.dumps(data, indent=1) + "\n")
        Path(file.name).replace(target)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Qualification:
        """Read a report.

        Raises:
            UnsupportedModelError: There is none, or it is damaged or of another version.
        """
        try:
            data = json.loads(Path(path).read_text(encoding="utf-8"))
            if (data["format"], data["version"]) != (FORMAT, VERSION):
                raise UnsupportedModelError(f"{path} is no qualification of version {VERSION}: run qualify again")
            checks = tuple(Check(**cast("Mapping[str, Any]", one)) for one in data["checks"])
            return cls(data["fingerprint"], data["adapter"], data["dtype"], checks)
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise UnsupportedModelError(
                f"{path} holds no qualification ({type(error).__name__}): run qualify again"
            ) from error

    def require(self, mode: str) -> None:
        """Raises UnsupportedModelError unless a mode was found to work."""
        if not self.allows(mode):
            needed = self._needed(mode.partition("@")[0])
            seen = ", ".join(" ".join(str(check or f"{name}: not checked").split()) for name, check in needed)
            raise UnsupportedModelError(
                f"this model was not found to work with {mode!r} ({seen or 'nothing checks it'}; its reference is "
                f"{self.reference!r}): qualify it with more shops, or choose another mode"
            )

    def __str__(self) -> str:
        """A line for each check, then what follows from them."""
        modes = ("erratum", "in_place", "field_erratum", "skills")
        allowed = ", ".join([*(mode for mode in modes if self.allows(mode)), "full"])
        return "\n".join([*map(str, self.checks), f"reference: {self.reference}; works: {allowed}"])
