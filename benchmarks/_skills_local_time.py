"""Time to first token of a skill's first use in a new session, and what keeping it compiled takes.

All arms take turns, so that a slow minute of the machine hits all of them. Before each turn the prefix cache is empty;
what a process does once (the rotary rule is proven, the template is probed) is done before the clock starts. The clock
is `Reply.ttft_s`: from the call to the first token, rendering and look-up included. Files were written a moment ago, so
they are in the operating system's cache of files: a cold disk adds the time to read them.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks._skills_local import Asked, Place, tools
from benchmarks._skills_local_quality import history_of
from pkv_agents import Message, SkillRegistry, wire
from pkv_agents.kv import DiskStore
from pkv_agents.local import Conversation, LocalModel, Reply

Engine = Callable[[DiskStore | None], LocalModel]
"""Makes an engine on the loaded model, with a store of compiled skills or without."""


@dataclass(frozen=True, slots=True)
class TimeRow:
    """One arm.

    Attributes:
        place: Where the skill stands.
        arm: Where its keys and values come from.
        grade: What the answer says of itself.
        prompt_tokens: Of the whole prompt.
        computed: Tokens that went through the model.
        ttft_s: The median.
        fastest_s: The fastest.
        ratio: The prefill's median over this one.
    """

    place: Place
    arm: str
    grade: str
    prompt_tokens: int
    computed: int
    ttft_s: float
    fastest_s: float
    ratio: float


@dataclass(frozen=True, slots=True)
class Sizes:
    """What a compiled skill takes.

    Attributes:
        place: The form: as it stands in a head, or later.
        tokens: Of the skill.
        compile_s: Seconds to compile it and to write it to the disk.
        disk_bytes: Of its file.
        segment_bytes: Of its keys and values in memory.
        slab_bytes: Of the session's slab, with room for the answer.
    """

    place: Place
    tokens: int
    compile_s: float
    disk_bytes: int
    segment_bytes: int
    slab_bytes: int


class Timing:
    """The arms of one place.

    Args:
        make: Makes engines.
        asked: The shop.
        folder: For the compiled skills; emptied by whoever made it.
    """

    def __init__(self, make: Engine, asked: Asked, folder: Path) -> None:
        self.asked = asked
        self._make = make
        self._folder = folder / "anywhere"
        self._home = folder / "in place"
        self._plain = _warm(make(None))
        self._memory = _warm(make(None))
        self._memory.skills.compile([asked.text])
        engine = _warm(make(DiskStore(self._folder)))
        started = time.perf_counter()
        segment = engine.skills.compile([asked.text])[0]
        self._compile_s = time.perf_counter() - started
        self._trusted = engine
        self._segment_bytes, self._tokens = segment.nbytes, len(segment)
        self._exact = _warm(make(DiskStore(self._home)))
        if asked.place == "head":
            plan = asked.session(engine).plan(messages := [asked.question])
            self._exact.skills.compile([asked.text], behind=wire(plan, messages), tools=tools())

    def arms(self) -> dict[str, Callable[[], Reply]]:
        """What to measure."""
        made: dict[str, Callable[[], Reply]] = {
            "prefill": lambda: self._turn(self._plain, ()),
            "disk, verified": lambda: self._turn(_warm(self._make(DiskStore(self._folder)))),
            "disk, trusted": lambda: self._turn(self._trusted),
            "memory": lambda: self._turn(self._memory),
        }
        if self.asked.place == "head":
            made["for this head, disk, verified"] = lambda: self._turn(_warm(self._make(DiskStore(self._home))))
            made["for this head, disk, trusted"] = lambda: self._turn(self._exact)
        return made

    def sizes(self) -> Sizes:
        """What it takes, once the arms have run."""
        self._turn(self._memory)
        slab = self._memory.cache_stats.bytes // self._memory.cache_stats.slabs
        disk = DiskStore(self._folder).size()
        return Sizes(self.asked.place, self._tokens, round(self._compile_s, 3), disk, self._segment_bytes, slab)

    def _turn(self, engine: LocalModel, skills: SkillRegistry | Sequence[str] | None = None) -> Reply:
        engine.clear_cache()
        session = self.asked.session(engine)
        wanted = self.asked.registry if skills is None else skills
        talk = Conversation(
            engine, session, skills=wanted, later_skills=True, options={"tools": tools(), "max_tokens": 1}
        )
        messages: list[Message] = history_of(self.asked, talk)
        return talk.answer(messages, tool_choice="none").reply


def time_rows(timing: Timing, repeats: int) -> list[TimeRow]:
    """Each arm's median, the arms taking turns; one more turn at the start is not counted."""
    arms = timing.arms()
    seconds: dict[str, list[float]] = {arm: [] for arm in arms}
    last: dict[str, Reply] = {}
    for turn in range(repeats + 1):
        for arm, ask in arms.items():
            last[arm] = ask()
            if turn:
                seconds[arm].append(last[arm].ttft_s)
    prefill = statistics.median(seconds["prefill"])
    return [
        TimeRow(
            timing.asked.place,
            arm,
            last[arm].grade,
            last[arm].prompt_tokens,
            last[arm].prompt_tokens - last[arm].cached_tokens,
            round(statistics.median(taken), 4),
            round(min(taken), 4),
            round(prefill / statistics.median(taken), 1),
        )
        for arm, taken in seconds.items()
    ]


def _warm(engine: LocalModel) -> LocalModel:
    """An engine that has done what a process does once."""
    engine.logits([Message("user", "Hello.")], tools=tools())
    _ = engine.segments, engine.profile
    engine.clear_cache()
    return engine
