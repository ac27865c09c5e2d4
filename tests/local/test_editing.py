"""A local model whose cache is edited and composed: what is computed, what the answers say of it, what stays exact."""

from __future__ import annotations

import pytest
import torch

from pkv_agents.errors import OptionsError
from pkv_agents.kv import Composed, Edited, TokenRun, rewrite
from pkv_agents.local import LocalModel
from pkv_agents.messages import Message
from tests.local.tiny import tiny_model, tiny_tokenizer

USER = Message("user", "Please cancel the order K417.")
POLICY = "You are a shop agent. Answer the question, thanks. " * 3


def head(tier: str, status: str = "delivered", *, policy: str = POLICY) -> Message:
    """The state stands before the policy, so much of the head stands behind each field."""
    return Message("system", f"customer.tier: {tier}\norders[K417].status: {status}\n\n{policy}")


def talk(model: LocalModel, first: Message, session: str = "s") -> list[Message]:
    """One answered turn, and the next question."""
    reply = model.generate([first, USER], max_tokens=5, session=session, edit_mode="in_place")
    assert reply.grade == "exact"
    return [USER, reply.message, Message("user", "And the other order?")]


def near(one: torch.Tensor, other: torch.Tensor) -> bool:
    return bool((one - other).abs().max() < 1e-3)


def test_in_place_computes_the_line_and_the_new_turn_and_says_so() -> None:
    model = tiny_model()
    rest = talk(model, head("gold"))
    asked = [head("silver and gold"), *rest]
    reply = model.generate(asked, max_tokens=5, session="s", edit_mode="in_place")
    assert reply.grade == "edited" and reply.edited == ("customer.tier",)
    assert isinstance(reply.origin, Edited)
    assert reply.prompt_tokens == len(model.render_ids(asked))
    forwarded = reply.prompt_tokens - reply.cached_tokens
    assert 0 < forwarded < 45  # the value, the reply's last token, and the new turn
    model.check_integrity()


def test_it_is_what_rewriting_the_segment_gives() -> None:
    model, tokenizer = tiny_model(), tiny_tokenizer()
    rest = talk(model, head("gold"))
    before, after = model.render_ids([head("gold"), *rest]), model.render_ids([head("new"), *rest])
    start = next(at for at, (a, b) in enumerate(zip(before, after, strict=False)) if a != b)
    stop = next(at for at in range(start, len(before)) if "\n" in tokenizer.decode(before[at])) + 1
    grown = len(after) - len(before)
    assert before[stop:] == after[stop + grown :]
    # The new turn was never computed behind the old head, so here it is forwarded too: in one go, as there.
    kept = len(model.render_ids([head("gold"), USER])) + 4  # the reply's last token waits for the next turn
    old = model.segments.prefill(before[:kept]).segment
    run = TokenRun("customer.tier", start, stop, tuple(after[start : stop + grown]))
    wanted = rewrite(model.segments, old, [run], after[kept + grown :]).logits
    have = model.logits([head("new"), *rest], session="s", edit_mode="in_place")
    assert wanted is not None and near(have, wanted)
    assert not near(have, model.logits([head("new"), *rest], cold=True))


def test_an_exact_look_up_never_sees_it() -> None:
    model = tiny_model()
    rest = talk(model, head("gold"))
    asked = [head("new"), *rest]
    model.generate(asked, max_tokens=5, session="s", edit_mode="in_place")
    for session in ("s", "t", None):
        reply = model.generate(asked, max_tokens=5, session=session)
        assert reply.grade == "exact" and reply.edited == ()
        assert near(model.logits(asked, session=session), model.logits(asked, cold=True))


def test_later_turns_inherit_it_and_compute_only_what_is_new() -> None:
    model = tiny_model()
    rest = talk(model, head("gold"))
    first = model.generate([head("new"), *rest], max_tokens=5, session="s", edit_mode="in_place")
    more = [head("new"), *rest, first.message, Message("user", "Thanks")]
    second = model.generate(more, max_tokens=5, session="s", edit_mode="in_place")
    assert second.grade == "edited" and second.edited == () and second.origin == first.origin
    assert second.cached_tokens >= first.prompt_tokens
    back = [head("gold", "lost"), *more[1:], second.message, Message("user", "And now?")]
    third = model.generate(back, max_tokens=5, session="s", edit_mode="in_place")
    assert third.edited == ("customer.tier", "orders[K417].status")
    assert isinstance(third.origin, Edited) and len(third.origin.edits) == 3


def test_selective_of_everything_is_a_prefill_and_exact() -> None:
    model = tiny_model()
    rest = talk(model, head("gold"))
    asked = [head("new"), *rest]
    have = model.logits(asked, session="s", edit_mode="selective@99999")
    assert near(have, model.logits(asked, cold=True))
    again = model.generate(asked, max_tokens=2, session="s", edit_mode="in_place")
    assert again.grade == "exact"


def test_more_recomputed_tokens_are_another_result() -> None:
    logits: list[torch.Tensor] = []
    for mode in ("in_place", "selective@8"):
        model = tiny_model()
        rest = talk(model, head("gold"))
        logits.append(model.logits([head("new"), *rest], session="s", edit_mode=mode))
    assert not near(*logits)


def test_stale_is_the_old_head() -> None:
    model = tiny_model()
    rest = talk(model, head("gold"))
    have = model.logits([head("new"), *rest], session="s", edit_mode="stale")
    assert near(have, model.logits([head("gold"), *rest], cold=True))


def test_what_is_gone_or_too_different_is_prefilled() -> None:
    model = tiny_model()
    rest = talk(model, head("gold"))
    asked = [head("new", policy="Another text. " * 20), *rest]
    assert model.generate(asked, max_tokens=2, session="s", edit_mode="in_place").grade == "exact"
    rest = talk(model, head("gold"), "t")
    model.clear_cache()
    asked = [head("new"), *rest]
    reply = model.generate(asked, max_tokens=2, session="t", edit_mode="in_place")
    assert reply.grade == "exact" and reply.cached_tokens == 0


def test_an_edited_slab_that_was_evicted_is_prefilled_exactly() -> None:
    model = tiny_model(cache_bytes=1)
    rest = talk(model, head("gold"))
    asked = [head("new"), *rest]
    reply = model.generate(asked, max_tokens=2, session="s", edit_mode="in_place")
    assert reply.grade == "exact" and reply.cached_tokens == 0
    assert near(model.logits(asked, session="s", edit_mode="in_place"), model.logits(asked, cold=True))


def test_another_tenant_or_session_edits_nothing_of_it() -> None:
    model = tiny_model()
    rest = talk(model, head("gold"))
    asked = [head("new"), *rest]
    for salt, session in (("", "other"), ("tenant", "s")):
        reply = model.generate(asked, max_tokens=2, session=session, salt=salt, edit_mode="in_place")
        assert reply.grade == "exact"


def test_auto_edits_only_what_a_verdict_allows() -> None:
    model = tiny_model()
    rest = talk(model, head("gold"))
    skeleton = model.skeleton([head("gold")])
    assert skeleton == model.skeleton([head("silver", "lost")]) != model.skeleton([head("gold", policy="x")])
    asked = [head("new"), *rest]
    assert model.generate(asked, max_tokens=2, session="s", edit_mode="auto").grade == "exact"
    model.verdicts.add(skeleton, "customer.tier", agrees=True, cost_s=3.0)
    rest = talk(model, head("gold"), "t")
    reply = model.generate([head("new"), *rest], max_tokens=2, session="t", edit_mode="auto")
    assert reply.edited == ("customer.tier",)
    reply = model.generate([head("new", "lost"), *rest], max_tokens=2, session="t", edit_mode="auto")
    assert reply.grade == "exact"  # nothing is known of the status
    verdict = model.verdicts.get(skeleton, "customer.tier")
    assert verdict is not None and verdict.uses == 1 and verdict.amortised_s == 3.0
    assert "may be edited in place (1 of 1" in str(model.verdicts)
    model.verdicts.add(skeleton, "customer.tier", agrees=False, cost_s=1.0)
    assert not model.verdicts.allows(skeleton, "customer.tier")


@pytest.mark.parametrize("mode", ["", "inplace", "selective", "selective@", "selective@-1", "selective@x"])
def test_an_unknown_mode_is_refused(mode: str) -> None:
    with pytest.raises(OptionsError, match="edit_mode"):
        tiny_model().generate([head("gold"), USER], session="s", edit_mode=mode)


def test_editing_without_a_session_is_refused() -> None:
    with pytest.raises(OptionsError, match="session"):
        tiny_model().generate([head("gold"), USER], edit_mode="in_place")


def test_streams_edit_too() -> None:
    model = tiny_model()
    rest = talk(model, head("gold"))
    stream = model.stream([head("new"), *rest], max_tokens=5, session="s", edit_mode="in_place")
    next(stream)
    stream.close()
    reply = model.generate([head("new"), *rest], max_tokens=5, session="s", edit_mode="in_place")
    assert isinstance(reply.origin, Edited)
    assert not isinstance(reply.origin, Composed)
    model.check_integrity()
