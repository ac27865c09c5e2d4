"""The words of the shop: its tools, what customers ask for, and the values that its state can take.

Every pool has a trained half and a half that no training row ever uses, so that a benchmark can ask whether the model
reads or remembers.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ToolDoc:
    """How a tool is shown to the model and what it tells the customer."""

    name: str
    arguments: tuple[str, ...]
    description: str
    reply: str


TOOL_DOCS = (
    ToolDoc("cancel_order", ("order_id",), "Stop an order for good.", "Order {order_id} is cancelled."),
    ToolDoc(
        "change_address",
        ("order_id", "town"),
        "Send an order to another town.",
        "Order {order_id} now goes to {town}.",
    ),
    ToolDoc("decline_request", ("order_id",), "Say no, kindly.", "We cannot do that for order {order_id}, sorry."),
    ToolDoc("escalate_case", ("order_id",), "Hand the case to a person.", "A person will look at order {order_id}."),
    ToolDoc("expedite_order", ("order_id",), "Put an order on the next van.", "Order {order_id} takes the next van."),
    ToolDoc("hold_order", ("order_id",), "Keep an order in the house for now.", "Order {order_id} is on hold."),
    ToolDoc("issue_credit", ("order_id",), "Give ten euros of store credit.", "You get a credit for {order_id}."),
    ToolDoc("open_return", ("order_id",), "Send a label for a return.", "The return of {order_id} is open."),
    ToolDoc("refund_order", ("order_id",), "Give the money back.", "Order {order_id} is refunded."),
    ToolDoc("send_replacement", ("order_id",), "Send the same order once more.", "A new {order_id} is on its way."),
)
GENERAL_TOOLS = tuple(doc.name for doc in TOOL_DOCS if doc.arguments == ("order_id",))


@dataclass(frozen=True, slots=True)
class Topic:
    """A kind of request.

    Attributes:
        name: The words that the policy uses for it.
        requests: What customers write, in the trained phrasing; `{id}` and `{town}` are filled in.
        paraphrases: The same in words that no training row uses.
    """

    name: str
    requests: tuple[str, ...]
    paraphrases: tuple[str, ...]


def _plain(name: str, *paraphrases: str) -> Topic:
    article = "an" if name[0] in "aeiou" else "a"
    return Topic(
        name,
        (
            f"I have {article} {name} request for order {{id}}.",
            f"This is {article} {name} request for order {{id}}, please.",
            f"Hello, order {{id}} again: {article} {name} request.",
            f"Can you take {article} {name} request for order {{id}}?",
        ),
        paraphrases,
    )


TOPICS = (
    _plain("cancel", "Please stop order {id}, we will cancel it.", "We want to cancel {id} after all."),
    _plain("return", "We would like to return what came with {id}.", "How do we return {id}?"),
    _plain("refund", "Please refund us {id}.", "We want a refund on {id}."),
    Topic(
        "address change",
        (
            "I have an address change request for order {id}, to {town}.",
            "This is an address change request for order {id}, to {town}, please.",
            "Hello, order {id} again: an address change request, to {town}.",
            "Can you take an address change request for order {id}, to {town}?",
        ),
        ("Our address changes, {id} should go to {town}.", "We moved to {town}: the address of {id} must change."),
    ),
    _plain("damage", "There is some damage to {id}.", "{id} came with damage."),
    _plain("missing item", "An item is missing in {id}.", "We found one missing item in {id}."),
    _plain("rush", "We need {id} in a rush.", "Please rush {id} to us."),
    _plain("price match", "Somebody sells {id} at a lower price, will you match it?", "Please match a price for {id}."),
    _plain("gift wrap", "Could {id} come in gift wrap?", "Please wrap {id} as a gift."),
    _plain("warranty", "We call on the warranty of {id}.", "Is there a warranty on {id}? It broke."),
    _plain("discount", "Is there a discount on {id}?", "We would love some discount on {id}."),
    _plain("late delivery", "The delivery of {id} is late.", "{id} comes late, where is the delivery?"),
)

FIELDS = {
    "status": "the order's status",
    "payment": "the order's payment",
    "tier": "the customer's tier",
    "standing": "the account's standing",
}
"""The fields that decide, and how a rule names them."""


@dataclass(frozen=True, slots=True)
class Vocabulary:
    """Pools of values and names."""

    values: dict[str, tuple[str, ...]]
    names: tuple[str, ...]
    towns: tuple[str, ...]
    items: tuple[str, ...]
    carriers: tuple[str, ...]


TRAINED = Vocabulary(
    values={
        "status": tuple(
            "processing packed shipped delivered returned lost delayed sorted loaded picked weighed parked open".split()
        ),
        "payment": tuple("paid pending disputed refunded declined partial overdue reserved waived invoiced".split()),
        "tier": tuple("gold silver bronze platinum basic plus premium copper diamond family".split()),
        "standing": tuple("good review restricted trusted new watched closed verified limited fair".split()),
    },
    names=("Mara Lindt", "Jonas Weber", "Ana Sousa", "Piet Visser", "Elin Berg", "Luca Moretti", "Nina Kovac"),
    towns=("Lisbon", "Porto", "Ghent", "Turin", "Graz", "Malmo", "Brno", "Lyon", "Cork", "Bergen", "Split", "Leeds"),
    items=("desk lamp", "kettle", "linen throw", "wall lamp", "tea cups", "oak board", "wool socks", "candle set"),
    carriers=("north post", "red van", "city bike"),
)
HELD_OUT = Vocabulary(
    values={
        "status": tuple("stranded scanned dispatched queued boxed missing".split()),
        "payment": tuple("settled bounced frozen unpaid".split()),
        "tier": tuple("ruby pearl amber jade".split()),
        "standing": tuple("flagged neutral blocked clean".split()),
    },
    names=("Ida Holm", "Tomas Novak", "Rosa Marin", "Karl Ziegler"),
    towns=("Delft", "Siena", "Vigo", "Tartu"),
    items=("floor lamp", "jam jar", "yarn bundle", "bread knife"),
    carriers=("blue mail", "sea freight"),
)
