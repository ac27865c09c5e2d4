"""What users met, one report a number, through real agents of `create_agent`; this table says which test holds which.

| report | test |
|---|---|
| R01 | here: test_r01_an_erratum_waits_for_all_results_of_a_call |
| R02 | here: test_r02_before_any_user_turn_without_a_new_one_and_twice_in_a_step |
| R03 | here: test_r03_r04_r05_r06_templates_that_take_no_late_system_turn |
| R04 | here: test_r03_r04_r05_r06_templates_that_take_no_late_system_turn |
| R05 | here: test_r03_r04_r05_r06_templates_that_take_no_late_system_turn |
| R06 | here: test_r03_r04_r05_r06_templates_that_take_no_late_system_turn |
| R07 | test_refusals: test_r07_an_agent_goes_round_it_once_and_remembers |
| R08 | test_reports: test_r08_one_erratum_after_twenty_messages |
| R09 | test_reports: test_r09_a_clock_is_told_by_its_resolution |
| R10 | test_reports: test_r10_back_and_forth, test_r10_back_and_forth_over_a_restart_and_a_compaction |
| R11 | test_reports: test_r11_a_counter_is_bounded, test_r11_ten_fields_in_one_step_are_one_erratum |
| R12 | test_tools: test_r12_parallel_tools_merge_by_call_not_by_finish |
| R13 | test_reports: test_r13_odd_values_render_the_same_in_another_thread_and_again |
| R14 | here: test_r14_the_erratum_stands_behind_the_old_result_and_names_the_path |
| R17 | here: test_r17_six_orders_of_tools |
| R18 | test_skills_tools: test_r18_one_name_from_two_servers_odd_schemas_and_floats |
| R19 | test_switches: test_r19_on_off_on |
| R20 | here: test_r20_arguments_that_a_store_reordered |
| R21 | test_markers: test_r21_messages_stay_as_they_are_and_four_is_the_most |
| R22 | test_markers: test_r22_four_of_the_users |
| R23 | test_markers: test_r23_what_takes_none |
| R24 | test_markers: test_r24_an_hour_behind_five_minutes |
| R25 | test_markers: test_r25_a_step_that_is_longer_than_a_lookup |
| R26 | test_markers: test_r26_from_anthropic_to_openai |
| R27 | test_reports: test_r27_a_head_below_minimum_is_said_once |
| R29 | here: test_r29_however_the_agent_is_called |
| R30 | here: test_r30_a_thread_trimmed_at_each_index |
| R31 | here: test_r31_what_a_checkpointer_gives_back_is_sent_as_before |

`saver` is a memory, a SQLite and (where its server is installed) a Postgres checkpointer; R19 has the first two.
"""

from __future__ import annotations

import itertools
import json
import re
from pathlib import Path
from typing import Any

import pytest
from langchain.agents import create_agent
from langchain.tools import ToolRuntime, tool
from langchain_core.messages import AIMessage, HumanMessage, RemoveMessage, ToolMessage
from langchain_core.runnables import RunnableConfig
from langgraph.types import Command

from langchain_pkv import LocalChatModel, ModelCall, StateMiddleware, read_ledger
from pkv_agents import Notice
from pkv_agents.local import LocalModel
from tests.langchain.providers import (
    anthropic_model,
    assert_append_only,
    assert_legal_for_anthropic,
    openai_model,
)
from tests.langchain.support import TAG, UPDATE, Scripted, Shop, a_shop, call, errata_in, texts, wire_of
from tests.langchain.tiny import TEMPLATE, parts

CONFIG: RunnableConfig = {"configurable": {"thread_id": "t1"}}


@tool
def ship(order_id: str, runtime: ToolRuntime[Any, Any]) -> Command[Any]:
    """Mark an order as delivered."""
    answer = ToolMessage(f"{order_id} was handed over", tool_call_id=runtime.tool_call_id)
    return Command(update={"pkv_state": {f"orders[{order_id}].status": "delivered"}, "messages": [answer]})


@tool
def look(order_id: str) -> str:
    """Look an order up."""
    return f"{order_id}: in transit"


def agent_for(model: Any, saver: Any, tools: Any = (ship, look), **options: Any) -> Any:
    ours = StateMiddleware(Shop, instructions="Be brief.", tag=TAG, **options)
    return create_agent(model, list(tools), middleware=[ours], checkpointer=saver)


def user(text: str, **rest: Any) -> dict[str, Any]:
    return {"messages": [HumanMessage(text)], **rest}


def calls(*made: dict[str, Any]) -> AIMessage:
    return AIMessage("", tool_calls=list(made))


def test_the_table_names_tests_that_exist() -> None:
    assert __doc__ is not None
    rows = re.findall(r"^\| (R\d\d) \| (\w+): (.+) \|$", __doc__, re.MULTILINE)
    numbers = {*range(1, 15), *range(17, 28), 29, 30, 31}
    assert [row[0] for row in rows] == [f"R{number:02}" for number in sorted(numbers)]
    for number, file, names in rows:
        text = Path(__file__ if file == "here" else Path(__file__).with_name(f"{file}.py")).read_text(encoding="utf-8")
        for name in names.split(", "):
            assert f"def {name}(" in text and number.lower() in name


@pytest.mark.parametrize("name", ["claude-opus-4-8", "claude-sonnet-5"])
def test_r01_an_erratum_waits_for_all_results_of_a_call(name: str, saver: Any) -> None:
    """A node between the tools and the model sees one result, the state changes, then the other one arrives."""
    step = [call("ship", "c1", order_id="K417"), call("ship", "c2", order_id="M220")]
    model, provider = anthropic_model(name, [step, "done", "so"])
    agent = agent_for(model, saver)
    agent.invoke(user("ship both", pkv_state=a_shop()), CONFIG)
    agent.invoke(user("thanks", pkv_state={"mode": "auto"}), CONFIG)
    for body in provider.bodies:
        assert_legal_for_anthropic(body)
    assert_append_only(provider.bodies)
    assert json.dumps(provider.bodies[1]).count(f"{UPDATE}\n".replace('"', '\\"').replace("\n", "\\n")) == 1


def test_r02_before_any_user_turn_without_a_new_one_and_twice_in_a_step(saver: Any) -> None:
    model, provider = anthropic_model("claude-opus-4-8", ["one", "two", "three"])
    agent = agent_for(model, saver)
    agent.update_state(CONFIG, {"pkv_state": a_shop()})
    agent.update_state(CONFIG, {"pkv_state": {"mode": "auto"}})  # before any user turn
    agent.invoke(user("hello"), CONFIG)
    agent.update_state(CONFIG, {"pkv_state": {"cart_total": 1}})
    agent.update_state(CONFIG, {"pkv_state": {"cart_total": 2}})  # twice
    agent.invoke({"messages": []}, CONFIG)  # right behind the assistant's words
    agent.invoke(user("again"), CONFIG)
    for body in provider.bodies:
        roles = [message["role"] for message in body["messages"]]
        assert roles[0] == "user" and ("system", "system") not in itertools.pairwise(roles)
        assert all(one == "user" for one, two in itertools.pairwise(roles) if two == "system")
    last = json.dumps(provider.bodies[-1])
    assert "cart_total: 2" in last and "cart_total: 1" not in last


LOOP, CONTENT = "{% for message in messages %}", "{{ message['content'] }}"
LATE = "{% if message['role'] == 'system' and not loop.first %}"
RAISES = LATE + "{{ raise_exception('System message must be first') }}{% endif %}"
LATEST_USER = (
    "{% set ns = namespace(last=0) %}"
    + LOOP
    + "{% if message['role'] == 'user' %}{% set ns.last = loop.index0 %}{% endif %}{% endfor %}"
)
WITHOUT_THOUGHTS = (
    "{% if message['role'] == 'assistant' and loop.index0 < ns.last %}{{ message['content'].split('</think>')[-1] }}"
    "{% else %}{{ message['content'] }}{% endif %}"
)
ALTERNATES = (
    "{% if message['role'] == ns.last or (message['role'] == 'system' and not loop.first) %}"
    "{{ raise_exception('Roles must alternate') }}{% endif %}{% set ns.last = message['role'] %}"
)
TEMPLATES = {
    "raises": TEMPLATE.replace(LOOP, LOOP + RAISES),
    "drops": TEMPLATE.replace(LOOP, LOOP + LATE + "{% else %}").replace("{% endfor %}", "{% endif %}{% endfor %}"),
    "forgets thoughts": TEMPLATE.replace(CONTENT, WITHOUT_THOUGHTS).replace(LOOP, LATEST_USER + LOOP, 1),
    "alternates": TEMPLATE.replace(LOOP, "{% set ns = namespace(last='') %}" + LOOP + ALTERNATES),
}


@pytest.mark.parametrize("name", TEMPLATES)
def test_r03_r04_r05_r06_templates_that_take_no_late_system_turn(name: str, saver: Any) -> None:
    """The erratum is in what the template renders, where the profile that was probed puts it, and nothing raises."""
    model, tokenizer = parts(TEMPLATES[name])
    made: list[ModelCall] = []
    llm = LocalChatModel(local=LocalModel(model, tokenizer), max_tokens=3)
    agent = agent_for(llm, saver, tools=(), on_call=made.append)
    agent.invoke(user("hello", pkv_state=a_shop()), CONFIG)
    agent.invoke(user("and?", pkv_state={"mode": "auto"}), CONFIG)
    agent.invoke(user("so"), CONFIG)
    roles = {"system": "system", "human": "user", "ai": "assistant"}
    data = [{"role": roles[message.type], "content": message.text} for message in made[-1].messages]
    rendered = tokenizer.apply_chat_template(data, tokenize=False)
    assert f'{UPDATE}\nmode: "auto"\n' in rendered
    if name != "forgets thoughts":  # that one takes a late system turn
        assert [message.type for message in made[-1].messages].count("system") == 1


def test_r14_the_erratum_stands_behind_the_old_result_and_names_the_path(saver: Any) -> None:
    model = Scripted(script=[calls(call("look", "c1", order_id="K417"))])
    agent = agent_for(model, saver)
    agent.invoke(user("where is it?", pkv_state=a_shop()), CONFIG)
    agent.invoke(user("and now?", pkv_state={"orders[K417].status": "delivered"}), CONFIG)
    request = model.requests[-1]
    old = next(at for at, message in enumerate(request) if message.text == "K417: in transit")
    told = next(at for at, message in enumerate(request) if 'orders[K417].status: "delivered"' in message.text)
    assert told > old and errata_in(request) == ['orders[K417].status: "delivered"']


def test_r17_six_orders_of_tools(saver: Any) -> None:
    """create_agent sends tools as they were given; ours leaves them alone, and says when they moved in a thread."""

    def named(name: str) -> Any:
        @tool(name)
        def run(order_id: str) -> str:
            """Run."""
            return name

        return run

    tools = [named(name) for name in ("zeta", "alpha", "mu")]
    for number, order in enumerate(itertools.permutations(tools)):
        model, provider = openai_model(script=["one", "two", "three"])
        notices: list[Notice] = []
        thread: Any = {"configurable": {"thread_id": f"t{number}"}}
        agent = agent_for(model, saver, tools=order, on_notice=notices.append)
        agent.invoke(user("a", pkv_state=a_shop()), thread)
        agent.invoke(user("b", pkv_state={"mode": "auto"}), thread)
        first, second = (json.dumps(body["tools"]) for body in provider.bodies)
        assert first == second and notices == []
        late = agent_for(model, saver, tools=(*order, named("beta")), on_notice=notices.append)
        late.invoke(user("c"), thread)
        sent = [[one["function"]["name"] for one in body["tools"]] for body in provider.bodies]
        assert sent[-1] == [*sent[0], "beta"] and [notice.code for notice in notices] == ["tools_changed"]


def test_r20_arguments_that_a_store_reordered(saver: Any) -> None:
    def sent(arguments: dict[str, Any], thread: str) -> str:
        model, provider = openai_model()
        config: RunnableConfig = {"configurable": {"thread_id": thread}}
        history = [HumanMessage("go"), calls(call("look", "c1", **arguments)), ToolMessage("ok", tool_call_id="c1")]
        agent_for(model, saver).invoke({"messages": [*history, HumanMessage("so")], "pkv_state": a_shop()}, config)
        return json.dumps(provider.bodies[0]["messages"])

    assert sent({"city": "Tokyo", "unit": "c"}, "a") == sent({"unit": "c", "city": "Tokyo"}, "b")


@pytest.mark.parametrize("how", ["invoke", "stream", "batch"])
def test_r29_however_the_agent_is_called(how: str, saver: Any) -> None:
    def usage(total: int) -> dict[str, Any]:
        details = {"cache_read": total - 10}
        return {"input_tokens": total, "output_tokens": 5, "total_tokens": total + 5, "input_token_details": details}

    answers = [AIMessage("one", usage_metadata=usage(100)), AIMessage("two", usage_metadata=usage(200))]  # pyright: ignore[reportArgumentType]
    model = Scripted(script=answers)
    agent = agent_for(model, saver)
    for given in (user("a", pkv_state=a_shop()), user("b", pkv_state={"mode": "auto"})):
        if how == "invoke":
            agent.invoke(given, CONFIG)
        elif how == "stream":
            list(agent.stream(given, CONFIG, stream_mode="messages"))
        else:
            agent.batch([given], CONFIG)
    record = read_ledger(agent.get_state(CONFIG).values)
    assert record is not None and record.calls == 2
    assert (record.usage.fresh, record.usage.cache_read, record.usage.output) == (20, 280, 10)
    assert errata_in(model.requests[-1]) == ['mode: "auto"']


@pytest.mark.parametrize("at", range(1, 7))
def test_r30_a_thread_trimmed_at_each_index(at: int, saver: Any) -> None:
    model = Scripted(script=[calls(call("ship", "c1", order_id="K417"), call("look", "c2", order_id="M220"))])
    notices: list[Notice] = []
    agent = agent_for(model, saver, on_notice=notices.append)
    agent.invoke(user("go", pkv_state=a_shop()), CONFIG)
    agent.invoke(user("more", pkv_state={"mode": "auto"}), CONFIG)
    old = agent.get_state(CONFIG).values["messages"][:at]
    agent.update_state(CONFIG, {"messages": [RemoveMessage(id=message.id) for message in old]})
    agent.invoke(user("and now?"), CONFIG)
    request = model.requests[-1]
    known = {one["id"] for message in request if isinstance(message, AIMessage) for one in message.tool_calls}
    assert all(message.tool_call_id in known for message in request if isinstance(message, ToolMessage))
    said = texts(request).replace('\\"', '"').replace("\\n", "\n")
    for line in ('orders[K417].status: "delivered"', 'mode: "auto"'):
        path = line.partition(":")[0]
        assert [one.strip('"') for one in said.splitlines() if one.startswith(f"{path}: ")][-1] == line.strip('"')
    assert notices


def test_r31_what_a_checkpointer_gives_back_is_sent_as_before(saver: Any) -> None:
    """Text and blocks, None and missing, extra keys, ids: the next request begins with the one before."""
    image = {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}}
    odd = AIMessage(
        [{"type": "text", "text": "I see.", "extra": None}], additional_kwargs={"b": 1, "a": {"d": None}}, id="mine"
    )
    model = Scripted(script=[odd, AIMessage("two"), AIMessage("three")])
    for text in ("one", "two", "three"):
        agent = agent_for(model, saver)  # a new agent on what was saved
        content: Any = [image, {"type": "text", "text": text}] if text == "one" else text
        state: Any = a_shop() if text == "one" else {"cart_total": len(text)}
        agent.invoke({"messages": [HumanMessage(content, name="mara")], "pkv_state": state}, CONFIG)
    sent = [wire_of(request) for request in model.requests]
    assert all(two[: len(one)] == one for one, two in itertools.pairwise(sent))
