"""Chat templates in the style of known families: the verdict on each, and what follows from it (R03-R06)."""

from __future__ import annotations

import itertools
import json
from dataclasses import replace
from datetime import datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pkv_agents.errors import TemplateError
from pkv_agents.local import TemplateVerdict, notices_of, probe_template, profile_of, remember_verdict
from pkv_agents.local.findings import finding
from pkv_agents.local.rendering import TextTemplate
from pkv_agents.local.template import ChatTemplate
from pkv_agents.local.turns import Turn, to_turns
from pkv_agents.local.verdicts import verdict_key
from pkv_agents.messages import Message
from pkv_agents.profiles import LOCAL, profile_for
from tests.local.families import BEFORE_ASSISTANT, FAMILIES, Family
from tests.local.texts_plain import LLAMA_3_1, SMOLLM2
from tests.local.texts_thinking import QWEN_3
from tests.local.tiny import tiny_tokenizer

NAMES = sorted(FAMILIES)


def verdict_on(name: str) -> TemplateVerdict:
    family = FAMILIES[name]
    return probe_template(family.text, special_tokens=family.tokens)


@pytest.mark.parametrize(("name", "family"), FAMILIES.items())
def test_each_family_gets_its_verdict(name: str, family: Family) -> None:
    verdict = verdict_on(name)
    assert verdict.late_system == family.late
    assert verdict.carrier == ("system" if family.late == "kept" else "user_suffix")
    assert " ".join(verdict.codes) == family.codes
    assert verdict.append_only is family.append_only
    assert verdict.clock == family.clock
    assert verdict.best_reach is not None and verdict.best_reach.form == family.best


@pytest.mark.parametrize("name", NAMES)
def test_a_verdict_explains_each_finding_with_what_was_seen(name: str) -> None:
    verdict = verdict_on(name)
    text = verdict.explain()
    for found in verdict.findings:
        assert found.seen and found.consequence and found.engine
        assert f"{found.code}: {found.consequence}\n  seen: {found.seen}\n  engine: {found.engine}" in text


@pytest.mark.parametrize("name", NAMES)
def test_a_verdict_travels_as_json(name: str) -> None:
    verdict = verdict_on(name)
    assert TemplateVerdict.from_dict(json.loads(json.dumps(verdict.to_dict()))) == verdict


words = st.text(alphabet="ab \n<>/", max_size=6)
thoughts = st.builds("<think>\n{}\n</think>\n\n{}".format, words, words)


@st.composite
def conversations(draw: st.DrawFn) -> list[list[Message]]:
    """Growing histories, each ending where an answer is asked for, with errata as system messages."""
    history = [Message("system", "zqhead" + draw(words)), Message("user", draw(words))]
    requests: list[list[Message]] = []
    for _ in range(draw(st.integers(2, 5))):
        if draw(st.booleans()):
            history.append(Message("system", "erratum " + draw(words)))
        requests.append(list(history))
        history.append(Message("assistant", draw(st.one_of(words, thoughts))))
        history.append(Message(draw(st.sampled_from(["user", "tool"])), draw(words)))
    return requests


@pytest.mark.parametrize("name", [name for name in NAMES if FAMILIES[name].append_only])
@given(requests=conversations())
def test_requests_only_append_where_the_verdict_says_so(name: str, requests: list[list[Message]]) -> None:
    family, verdict = FAMILIES[name], verdict_on(name)
    render = TextTemplate(family.text, special_tokens=family.tokens)
    texts = [asked(render, verdict, request) for request in requests]
    for old, new in itertools.pairwise(texts):
        assert new.startswith(old)
    assert "zqhead" in texts[-1]
    assert texts[-1].count("erratum") == sum(message.role == "system" for message in requests[-1]) - 1


def asked(render: TextTemplate, verdict: TemplateVerdict, messages: list[Message]) -> str:
    turns = to_turns(messages, tools=(), verdict=verdict, clean=lambda text: text)
    noon = datetime(2024, 5, 6, 12)
    return render([{"role": turn.role, "content": turn.content} for turn in turns], ask=True, at=noon)


edges = st.sampled_from(["foo", "bar", " ", "\n", "\n\n", "\U0001f600", "\ud83d", "\ude00", "é", "]", "[", "", "x"])
awkward = st.lists(edges, min_size=1, max_size=3).map("".join)


def chat_of(name: str) -> ChatTemplate:
    tokenizer = tiny_tokenizer(FAMILIES[name].text)
    for token, text in FAMILIES[name].tokens.items():
        setattr(tokenizer, token, text)
    return ChatTemplate(tokenizer)


# Special tokens, plain text as marks, white space before an answer, trimming, joined turns.
_CHATS = {name: chat_of(name) for name in ("smollm2", "gemma", "llama-2", "llama-3.1", "mistral")}


@pytest.mark.parametrize("name", _CHATS)
@given(turns=st.lists(st.tuples(awkward, awkward, st.lists(st.integers(3, 400), max_size=4)), min_size=2, max_size=4))
def test_seams_between_texts_and_ids_hold(name: str, turns: list[tuple[str, str, list[int]]]) -> None:
    """R38: whatever a text ends with, an erratum begins with, or a model generates, ids only append."""
    chat, tokenizer = _CHATS[name], tiny_tokenizer()
    history: list[Message] = []
    before: list[int] = []
    for text, erratum, generated in turns:
        history += [Message("user", text), Message("system", erratum)]
        rendered = chat.render(history)
        assert list(rendered.ids[: len(before)]) == before
        if not before:
            assert list(rendered.ids) == tokenizer.encode(rendered.text, add_special_tokens=False)
        answer = chat.tokenizer.decode(generated, skip_special_tokens=False, clean_up_tokenization_spaces=False)
        chat.remember(rendered, generated, answer)
        before = [*rendered.ids, *generated]
        history.append(Message("assistant", answer))


@pytest.mark.parametrize("name", NAMES)
def test_our_environment_renders_as_the_tokenizer_does(name: str) -> None:
    tokenizer: Any = chat_of(name).tokenizer
    ours = TextTemplate(FAMILIES[name].text, special_tokens=dict(tokenizer.special_tokens_map))
    system, user = {"role": "system", "content": "s <b> 'é'"}, {"role": "user", "content": " u\n"}
    tools: list[Any] = [{"type": "function", "function": {"name": "t", "description": "<é>", "parameters": {}}}]
    for messages in ([system, user], [user], [system, user, {"role": "assistant", "content": "a"}, user]):
        for tool_list in (None, tools):
            try:
                theirs = tokenizer.apply_chat_template(
                    messages, tokenize=False, add_generation_prompt=True, tools=tool_list
                )
            except Exception:  # noqa: BLE001 - whatever transformers lets through, ours is one error
                with pytest.raises(TemplateError):
                    ours(messages, ask=True, tools=tool_list)
            else:
                assert ours(messages, ask=True, tools=tool_list) == theirs


def test_a_tokenizer_and_its_text_get_one_verdict() -> None:
    tokenizer = tiny_tokenizer(SMOLLM2)
    tokens = {"eos_token": "<|im_end|>", "pad_token": "<|endoftext|>"}
    assert probe_template(tokenizer) is probe_template(SMOLLM2, special_tokens=tokens)


def test_thoughts_move_a_user_turn_and_no_other_form() -> None:
    """R05, on token ids: the share of the prompt in the cache that an erratum leaves, for each form."""
    chat = ChatTemplate(tiny_tokenizer(QWEN_3))
    answer = "<think>\nlook it up\n</think>\n\n{}"
    history = [Message("user", "where is it?")]
    asked_ids = chat.render(history).ids
    cached = [*asked_ids, *chat.encode(answer), 2]
    history += [Message("assistant", answer)]
    kept = {
        "user": common(cached, chat.render([*history, Message("tool", "here"), Message("user", "E")]).ids),
        "tool": common(cached, chat.render([*history, Message("tool", "here\n\nE")]).ids),
        "system": common(cached, chat.render([*history, Message("tool", "here"), Message("system", "E")]).ids),
    }
    assert kept["tool"] == kept["system"] == len(cached)
    assert kept["user"] == len(asked_ids)
    reaches = {reach.form: reach.is_whole for reach in verdict_on("qwen-3").reaches}
    assert reaches == {"tool_suffix": True, "system_turn": True, "user_turn": False, "raw_ids": True}


def common(old: list[int], new: tuple[int, ...]) -> int:
    return next((at for at, (a, b) in enumerate(zip(old, new, strict=False)) if a != b), min(len(old), len(new)))


def test_alternation_joins_the_erratum_and_the_users_text() -> None:
    """R06: one turn holds both, and what was sent is not touched."""
    verdict = verdict_on("gemma")
    sent = [Message("system", "S"), Message("user", "q"), Message("system", "E0"), Message("assistant", "a")]
    sent_turns = to_turns(sent, tools=(), verdict=verdict, clean=str)
    assert sent_turns == (Turn("user", "S\n\nq\n\nE0"), Turn("assistant", "a"))
    grown = to_turns([*sent, Message("user", "r"), Message("system", "E1")], tools=(), verdict=verdict, clean=str)
    assert grown == (*sent_turns, Turn("user", "r\n\nE1"))


def test_a_system_text_that_moves_goes_into_the_first_user_turn() -> None:
    verdict = verdict_on("mistral")
    assert not verdict.leading_system
    assert to_turns([Message("system", "S"), Message("user", "q")], tools=(), verdict=verdict, clean=str) == (
        Turn("user", "S\n\nq"),
    )


def test_a_required_system_turn_is_there_though_empty() -> None:
    turns = to_turns([Message("user", "q")], tools=(), verdict=verdict_on("needs-system"), clean=str)
    assert turns == (Turn("system", ""), Turn("user", "q"))


def test_a_system_turn_without_a_slot_becomes_a_user_turn() -> None:
    chat = ChatTemplate(tiny_tokenizer(BEFORE_ASSISTANT))
    history = [Message("user", "q"), Message("assistant", "a"), Message("system", "E"), Message("user", "r")]
    assert "user\nE<|im_end|>" in chat.render(history).text
    kept = [*history[:2], Message("user", "r"), Message("system", "E")]
    assert "system\nE<|im_end|>" in chat.render(kept).text
    assert "system\nE<|im_end|>" in chat.render([*kept, Message("assistant", "b"), Message("user", "s")]).text


def test_options_are_part_of_the_verdict() -> None:
    off = probe_template(QWEN_3, options={"enable_thinking": False})
    assert "prompt_rewritten" in off.codes and "prompt_rewritten" not in probe_template(QWEN_3).codes
    chat = ChatTemplate(tiny_tokenizer(QWEN_3), options={"enable_thinking": False})
    assert chat.verdict.generation_prompt == "<|im_start|>assistant\n<think>\n\n</think>\n\n"
    assert chat.render([Message("user", "u")]).text.endswith("<think>\n\n</think>\n\n")


def test_a_fixed_date_is_an_option() -> None:
    (clock,) = [found for found in verdict_on("llama-3.1").findings if found.code == "clock"]
    assert clock.seen.endswith("fixed by the option date_string")
    fixed = probe_template(LLAMA_3_1, special_tokens={"bos_token": "<s>"}, options={"date_string": "1 May 2024"})
    assert fixed.clock == "" and "clock" not in fixed.codes
    assert verdict_on("llama-3.1").variables == ("date_string",)


def test_the_verdict_becomes_a_profile() -> None:
    assert profile_of(verdict_on("gemma")) == LOCAL
    assert profile_of(verdict_on("qwen-2.5")) == replace(LOCAL, carrier="system")
    served = profile_of(verdict_on("before-assistant"), base=profile_for("vllm")[0])
    assert (served.name, served.carrier, served.system_slot) == ("vllm", "system", "before_assistant")


def test_notices_are_about_what_remains() -> None:
    here = [(notice.code, notice.path) for notice in notices_of(verdict_on("mistral"))]
    served = [(notice.code, notice.path) for notice in notices_of(verdict_on("mistral"), served=True)]
    assert here == []
    assert ("template_moves_prefix", "system_moves") in served and ("template_moves_prefix", "tools_move") in served
    assert ("template_loses_text", "late_system_refused") in served
    (thoughts,) = notices_of(verdict_on("qwen-3"))
    assert (thoughts.code, thoughts.path) == ("template_moves_prefix", "thoughts_dropped")
    assert "tool result" in thoughts.mend and "by a later user turn" in thoughts.message


def test_a_remembered_verdict_is_used() -> None:
    text = SMOLLM2 + "{# another #}"
    stored = replace(verdict_on("smollm2"), key=verdict_key(text, special_tokens={}, options=None), turn_end="stored")
    remember_verdict(stored)
    assert probe_template(text) is stored
    with pytest.raises(TemplateError, match="no key"):
        remember_verdict(TemplateVerdict(late_system="kept"))


def test_data_of_another_version_are_refused() -> None:
    data = verdict_on("smollm2").to_dict()
    for wrong in ({**data, "probe_version": 0}, {**data, "more": 1}, {"probe_version": data["probe_version"]}):
        with pytest.raises(TemplateError, match="probe the template again"):
            TemplateVerdict.from_dict(wrong)
    with pytest.raises(TemplateError, match="probe the template again"):
        TemplateVerdict.from_dict({**data, "findings": [{"code": "unheard_of", "seen": ""}]})
    with pytest.raises(TemplateError, match="probe the template again"):
        TemplateVerdict.from_dict({**data, "reaches": 3})


def test_every_code_is_in_the_table() -> None:
    from pkv_agents.local import findings

    codes = [line.split("`")[1] for line in (findings.__doc__ or "").splitlines() if line.startswith("| `")]
    assert sorted(codes) == sorted(findings._KNOWN)
    for code in codes:
        assert finding(code, "seen").explain().startswith(f"{code}: ")


def test_a_text_that_is_no_template_is_an_error() -> None:
    with pytest.raises(TemplateError, match="no valid Jinja"):
        probe_template("{% for %}")


def test_a_template_cannot_reach_out_of_its_sandbox() -> None:
    with pytest.raises(TemplateError):
        probe_template("{{ messages.__class__.__mro__ }}{{ messages.append(1) }}")


def test_several_templates_are_probed_by_their_default() -> None:
    tokenizer = tiny_tokenizer(SMOLLM2)
    tokenizer.chat_template = {"default": SMOLLM2, "tool_use": QWEN_3}
    found = ChatTemplate(tokenizer, options={"of_several": True}).verdict  # an option, so that it is not known already
    assert found.codes == verdict_on("smollm2").codes
    tokenizer.chat_template = {"tool_use": QWEN_3}
    with pytest.raises(TemplateError, match="no chat template"):
        ChatTemplate(tokenizer)


def test_marks_of_generation_are_transparent() -> None:
    marked = SMOLLM2.replace(
        "{% for message in messages %}", "{% for message in messages %}{% generation %}{% endgeneration %}"
    )
    assert probe_template(marked).codes == verdict_on("smollm2").codes
