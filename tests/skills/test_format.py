"""The Agent Skills format: its published limits, and what is done with folders that break it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from pkv_agents import Skill, SkillError, SkillRegistry, load_skill_folder, load_skills, read_resource

FRONT = "---\nname: {name}\ndescription: {description}\n---\n{body}"


def write(root: Path, name: str, text: str | bytes) -> Path:
    folder = root / name
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "SKILL.md").write_bytes(text if isinstance(text, bytes) else text.encode())
    return folder


def front(name: str = "refunds", description: str = "Money back.", body: str = "Be kind.\n", more: str = "") -> str:
    return f"---\nname: {name}\ndescription: {description}\n{more}---\n{body}"


def test_a_folder_is_read(tmp_path: Path) -> None:
    more = (
        "license: MIT\ncompatibility: Needs git\nallowed-tools: Bash(git:*) Read\nmetadata:\n  version: 1.0\n"
        "  pkv-tags: money shop\n  pkv-needs: terms\n  pkv-pinned: true\n"
    )
    folder = write(tmp_path, "refunds", front(body="\n# Refunds\r\n\r\nWithin 30 days.\r\n\n\n", more=more))
    (folder / "references").mkdir()
    (folder / "references" / "limits.md").write_text("up to 50\n")
    (folder / ".hidden").write_text("x")
    skill = load_skill_folder(folder)
    assert (skill.name, skill.description, skill.body) == ("refunds", "Money back.", "# Refunds\n\nWithin 30 days.")
    assert (skill.version, skill.tags, skill.needs, skill.pinned) == ("1.0", ("money", "shop"), ("terms",), True)
    assert skill.resources == ("references/limits.md",) and skill.trusted
    assert read_resource(skill, "references/limits.md") == "up to 50\n"


def test_equal_skills_have_equal_bytes_however_they_were_written(tmp_path: Path) -> None:
    one = load_skill_folder(write(tmp_path / "a", "refunds", front(body="\n\nA\nB  \n\n")))
    two = load_skill_folder(
        write(tmp_path / "b", "refunds", b"\xef\xbb\xbf" + front(body="A\nB\n").replace("\n", "\r\n").encode())
    )
    assert one.body.split("\n")[0] == two.body.split("\n")[0] == "A"
    three = Skill("refunds", "  Money \n back. ", "A\nB")
    assert two.fingerprint == three.fingerprint
    assert Skill("refunds", "Money back.", "A\nB", trusted=False).fingerprint != three.fingerprint


def test_the_fingerprint_is_the_same_in_another_process() -> None:
    code = "from pkv_agents import Skill; print(Skill('a', 'caf\\xe9', 'b\\nc').fingerprint)"
    env = {**os.environ, "PYTHONHASHSEED": "7", "LC_ALL": "C", "PYTHONUTF8": "0"}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=env, check=True)
    assert done.stdout.strip() == Skill("a", "café", "b\nc").fingerprint


@pytest.mark.parametrize("name", ["a", "0", "a-b", "pdf-processing", "x" * 64, "größe"])
def test_names_that_the_format_takes(name: str) -> None:
    assert Skill(name, "d", "b").name == name


@pytest.mark.parametrize(
    "name", ["", "x" * 65, "PDF", "-pdf", "pdf-", "pdf--x", "a b", "a_b", "a/b", "..", "a.b", "a\n"]
)
def test_names_that_it_does_not(name: str) -> None:
    with pytest.raises(SkillError, match="name"):
        Skill(name, "d", "b")


def test_descriptions_have_1_to_1024_characters() -> None:
    assert len(Skill("a", "d" * 1024, "b").description) == 1024
    for description in ("", "  ", "d" * 1025):
        with pytest.raises(SkillError, match="description"):
            Skill("a", description, "b")


@pytest.mark.parametrize("length", [1, 500])
def test_compatibility_has_1_to_500_characters(tmp_path: Path, length: int) -> None:
    load_skill_folder(write(tmp_path, "refunds", front(more=f"compatibility: {'c' * length}\n")))


@pytest.mark.parametrize(
    ("more", "says"),
    [
        (f"compatibility: {'c' * 501}\n", "compatibility has 501"),
        ('compatibility: ""\n', "compatibility has 0"),
        ("compatibility: 7\n", "compatibility is a int"),
        ("metadata: text\n", "metadata is a str"),
        ("metadata:\n  deep:\n    er: 1\n", "metadata.deep is a dict"),
        ("license: 3\n", "license is a int"),
        ("allowed-tools: 7\n", "allowed-tools"),
        ("allowed-tools: [Read, 7]\n", "allowed-tools"),
        ("metadata:\n  pkv-pinned: perhaps\n", "pkv-pinned"),
    ],
)
def test_optional_fields_are_held_to_the_format(tmp_path: Path, more: str, says: str) -> None:
    with pytest.raises(SkillError, match=says):
        load_skill_folder(write(tmp_path, "refunds", front(more=more)))


def test_what_the_format_advises_is_a_notice() -> None:
    assert Skill("a", "d", "short").notices() == ()
    (long,) = Skill("a", "d", "line\n" * 501).notices()
    assert (long.code, long.path) == ("skill_long", "a") and "501 lines" in long.cost and long.is_advice
    (many,) = SkillRegistry([Skill("b", "d", "many words here " * 3000)]).notices()
    assert "tokens" in many.cost


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("# Refunds\n", "does not begin with frontmatter"),
        ("", "does not begin with frontmatter"),
        ("---\nname: refunds\n", "not closed"),
        ("---\nname: refunds\n---\nbody", "no description"),
        ("---\ndescription: x\n---\nbody", "no name"),
        ("---\nname: yes\ndescription: x\n---\nbody", "name is read as a bool"),
        ("---\nname: refunds\ndescription: a: b\n---\nbody", "no YAML at line"),
        ("---\n- a\n- b\n---\nbody", "is a list"),
        ("---\n!!python/object/apply:os.system ['false']\n---\nbody", "no YAML"),
        ("---\nname: refunds\ndescription: x\n---\n \n", "body is empty"),
        ("---\nname: shipping\ndescription: x\n---\nbody", "stands in a folder named 'refunds'"),
        (f"---\nname: refunds\ndescription: {'x' * 70_000}\n---\nbody", "the frontmatter has"),
        (b"---\nname: refunds\ndescription: x\n---\n\xff\xfe", "no UTF-8"),
        (b"---\nname: refunds\ndescription: x\n---\n\x00\x01", "binary"),
        ("---\n" + "[" * 20_000 + "\n---\nbody", "no YAML|nested too deeply"),
    ],
)
def test_a_broken_file_is_an_error_that_names_it(tmp_path: Path, text: str | bytes, says: str) -> None:
    with pytest.raises(SkillError, match=says):
        load_skill_folder(write(tmp_path, "refunds", text))


def test_a_file_of_50_megabytes_is_not_read(tmp_path: Path) -> None:
    folder = write(tmp_path, "refunds", front())
    with (folder / "SKILL.md").open("r+b") as file:
        file.truncate(50_000_000)
    with pytest.raises(SkillError, match="50,000,000 bytes"):
        load_skill_folder(folder)


def test_resources_stay_inside_their_folder(tmp_path: Path) -> None:
    (tmp_path / "secret.txt").write_text("secret")
    folder = write(tmp_path, "refunds", front())
    (folder / "link.txt").symlink_to(tmp_path / "secret.txt")
    (folder / "up").symlink_to(tmp_path)
    (folder / "data.bin").write_bytes(b"\x00" * 10)
    os.mkfifo(folder / "pipe")
    skill = load_skill_folder(folder)
    assert "link.txt" not in skill.resources and not any(path.startswith("up") for path in skill.resources)
    for path in ("../secret.txt", "a/../../secret.txt", str(tmp_path / "secret.txt"), "", ".", "..", "up/secret.txt"):
        with pytest.raises(SkillError, match=r"no path inside|is a link|no file"):
            read_resource(skill, path)
    for path, says in (("link.txt", "is a link"), ("data.bin", "binary"), ("pipe", "no file"), ("nothing", "cannot")):
        with pytest.raises(SkillError, match=says):
            read_resource(skill, path)


def test_a_skill_file_that_is_a_link_is_refused(tmp_path: Path) -> None:
    (tmp_path / "elsewhere.md").write_text(front())
    (tmp_path / "refunds").mkdir()
    (tmp_path / "refunds" / "SKILL.md").symlink_to(tmp_path / "elsewhere.md")
    with pytest.raises(SkillError, match="is a link"):
        load_skill_folder(tmp_path / "refunds")


def test_a_folder_of_skills_is_read_in_one_order(tmp_path: Path) -> None:
    for name in ("zeta", "alpha", "mu"):
        write(tmp_path, name, front(name=name))
    (tmp_path / "notes").mkdir()
    assert [skill.name for skill in load_skills(tmp_path)] == ["alpha", "mu", "zeta"]
    with pytest.raises(SkillError, match="no such folder"):
        load_skills(tmp_path / "nowhere")
    with pytest.raises(SkillError, match="'mu' is a skill itself; name the folder above it"):
        load_skills(tmp_path / "mu")
    assert load_skills(tmp_path / "notes") == ()


def test_without_yaml_the_error_names_the_extra(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "yaml", None)
    with pytest.raises(ImportError, match=r"pkv-agents\[skills\]"):
        load_skill_folder(write(tmp_path, "refunds", front()))
