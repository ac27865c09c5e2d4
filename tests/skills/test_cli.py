"""`python -m pkv_agents skills`, on a folder of skills, a tiny model, and a store."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from transformers import AutoModelForCausalLM

from pkv_agents import SkillRegistry, load_skills
from pkv_agents import __main__ as program
from pkv_agents.kv import DiskStore
from pkv_agents.local import LocalModel
from tests.local.tiny import tiny_llama, tiny_tokenizer


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("model")
    tiny_llama().save_pretrained(folder)
    tiny_tokenizer().save_pretrained(folder)
    return folder


@pytest.fixture
def skills(tmp_path: Path) -> Path:
    for name, more in (("refunds", "metadata:\n  pkv-needs: terms\n  version: 2.0\n"), ("terms", "")):
        folder = tmp_path / "skills" / name
        folder.mkdir(parents=True)
        (folder / "SKILL.md").write_text(
            f"---\nname: {name}\ndescription: About {name}.\n{more}---\nRules of\n{name}.\n"
        )
    return tmp_path / "skills"


def test_list_prints_what_there_is(skills: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert program.main(["skills", "list", str(skills)]) == 0
    first, second = capsys.readouterr().out.splitlines()
    assert (
        first.startswith("refunds 2.0: about ")
        and ", fingerprint " in first
        and first.endswith(", needs terms")
        and second.startswith("terms: about ")
    )
    assert program.main(["skills", "list", str(skills), "--json"]) == 0
    assert [row["name"] for row in json.loads(capsys.readouterr().out)] == ["refunds", "terms"]


def test_a_folder_without_skills_or_with_a_broken_one_is_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert program.main(["skills", "list", str(tmp_path)]) == 2
    (tmp_path / "bad").mkdir()
    (tmp_path / "bad" / "SKILL.md").write_text("no front")
    assert program.main(["skills", "list", str(tmp_path)]) == 2
    told = capsys.readouterr().err.splitlines()
    assert len(told) == 2 and "holds no skill" in told[0] and "does not begin with frontmatter" in told[1]


@pytest.mark.slow
def test_compile_verify_prune(skills: Path, model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    store = tmp_path / "store"
    options = [str(skills), "--model", str(model), "--store", str(store), "--preamble", "Be kind."]
    assert program.main(["skills", "verify", *options]) == 1
    assert "refunds: missing or damaged" in capsys.readouterr().out
    assert program.main(["skills", "compile", *options]) == 0
    assert capsys.readouterr().out.count(": compiled, ") == 4  # each in two forms
    assert program.main(["skills", "compile", *options, "--json"]) == 0
    rows = json.loads(capsys.readouterr().out)["skills"]
    assert [row["compiled"] for row in rows] == [False] * 4 and all(row["bytes"] > 0 for row in rows)

    # What was compiled is what a local model looks for, in a head and behind it.
    tokenizer = tiny_tokenizer()
    loaded = AutoModelForCausalLM.from_pretrained(model).eval()
    local = LocalModel(loaded, tokenizer, skill_store=DiskStore(store), skill_preamble="Be kind.")
    registry = SkillRegistry(load_skills(skills))
    before = sorted(store.iterdir())
    local.skills.compile(
        [text(name) for name in ("refunds", "terms") for text in (registry.head_text, registry.appended_text)]
    )
    assert sorted(store.iterdir()) == before

    files = sorted(store.glob("*.safetensors"))
    files[0].write_bytes(files[0].read_bytes()[:-8])
    assert program.main(["skills", "verify", *options]) == 1
    assert program.main(["skills", "compile", *options]) == 0
    assert program.main(["skills", "verify", *options, "--json"]) == 0
    capsys.readouterr()

    (skills / "refunds" / "SKILL.md").write_text("---\nname: refunds\ndescription: New.\n---\nOther\nrules.\n")
    other = store / f"{'0' * 64}.safetensors"
    other.write_bytes(b"another model's")
    assert program.main(["skills", "prune", *options]) == 0
    assert capsys.readouterr().out.startswith("2 deleted, ") and other.exists()  # of this model, and needed by no skill
    assert program.main(["skills", "verify", *options]) == 1


def test_a_model_that_is_not_there_is_one_line(
    skills: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    options = ["--model", str(tmp_path / "none"), "--store", str(tmp_path / "store")]
    assert program.main(["skills", "compile", str(skills), *options]) == 2
    assert program.main(["skills", "compile", str(skills), *options, "--dtype", "float99"]) == 2
    assert len(capsys.readouterr().err.splitlines()) == 2


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:.is_gradient_checkpointing. is deprecated:FutureWarning")  # peft 0.21 asks for it
@pytest.mark.parametrize("merge", [False, True])
def test_an_adapter_has_segments_of_its_own(
    skills: Path, model: Path, tmp_path: Path, merge: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    peft = pytest.importorskip("peft")
    adapter, store = tmp_path / "adapter", tmp_path / "store"
    lora = peft.LoraConfig(r=2, target_modules=["q_proj", "v_proj"], init_lora_weights=False)
    peft.get_peft_model(AutoModelForCausalLM.from_pretrained(model), lora).save_pretrained(adapter)
    options = [str(skills), "--model", str(model), "--store", str(store), "--adapter", str(adapter)]
    assert program.main(["skills", "compile", *options, *(["--merge"] if merge else [])]) == 0

    adapted = peft.PeftModel.from_pretrained(AutoModelForCausalLM.from_pretrained(model), adapter).eval()
    loaded = adapted.merge_and_unload() if merge else adapted
    local = LocalModel(loaded, tiny_tokenizer(), skill_store=DiskStore(store))
    before = sorted(store.iterdir())
    local.skills.compile([SkillRegistry(load_skills(skills)).head_text("refunds")])
    assert sorted(store.iterdir()) == before
    assert program.main(["skills", "verify", *options[:-2]]) == 1  # without the adapter it is another model
    assert program.main(["skills", "verify", *options[:-1], str(tmp_path / "none")]) == 2
    assert "no adapter in 'none'" in capsys.readouterr().err
