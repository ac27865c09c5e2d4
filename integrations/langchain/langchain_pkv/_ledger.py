"""The ledger as a value of the private graph channel `pkv_ledger`, and what can be read from it.

LangGraph leaves a private channel out of the input and the output, but not out of `stream_mode="values"` and
`"updates"`: those show the writes of every channel. So the channel holds the ledger's JSON compressed, as one opaque
text in a plain dict: no erratum shows in a stream, and a checkpoint stays small. `read_ledger` opens it.
"""

from __future__ import annotations

import base64
import binascii
import json
import zlib
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any, cast

from langchain_pkv._messages import compact_json
from pkv_agents import Ledger, LedgerError, Usage

LEDGER_CHANNEL = "pkv_ledger"
STATE_CHANNEL = "pkv_state"
_FORMAT = "pkv-langgraph/1"
_MAX_TOLD = 1000


@dataclass(frozen=True, slots=True)
class LedgerRecord:
    """What the private channel holds for one thread.

    Attributes:
        ledger: What the model has been told, and where.
        usage: The sum over all model calls of the thread.
        calls: The number of model calls.
        told: The causes of notices that were reported, so that each is reported once.
        rebase: Why a new epoch was asked for, or None.
        tools: What names the tools of the latest request and its model; empty where that is not known.
        beside: What names the text that others put into its system message; None where that is not known.
    """

    ledger: Ledger
    usage: Usage
    calls: int
    told: tuple[str, ...] = ()
    rebase: str | None = None
    tools: str = ""
    beside: str | None = None


def pack(record: LedgerRecord) -> dict[str, Any]:
    """The channel's value."""
    data = {
        "ledger": record.ledger.to_dict(),
        "usage": asdict(record.usage),
        "calls": record.calls,
        "told": record.told[-_MAX_TOLD:],
        "rebase": record.rebase,
        "tools": record.tools,
        "beside": record.beside,
    }
    packed = zlib.compress(compact_json(data).encode(), 6)
    return {"format": _FORMAT, "data": base64.b64encode(packed).decode("ascii")}


def unpack(value: Mapping[str, Any] | None) -> LedgerRecord | None:
    """The record in a channel's value, or None for a thread that has none.

    Raises:
        LedgerError: If the value was not written by `pack`, or by a newer version of it.
    """
    if not value:
        return None
    if value.get("format") != _FORMAT:
        raise LedgerError(f"{LEDGER_CHANNEL}: unknown format {value.get('format')!r}, this version reads {_FORMAT!r}")
    try:
        data = json.loads(zlib.decompress(base64.b64decode(value["data"], validate=True)))
        ledger, usage = Ledger.from_dict(data["ledger"]), Usage(**data["usage"])
        told, beside = tuple(data["told"]), data.get("beside")
        return LedgerRecord(ledger, usage, data["calls"], told, data["rebase"], data.get("tools", ""), beside)
    except (KeyError, TypeError, ValueError, binascii.Error, zlib.error) as error:
        raise LedgerError(f"{LEDGER_CHANNEL}: the saved ledger cannot be read: {error}") from error


def read_ledger(values: Mapping[str, Any]) -> LedgerRecord | None:
    """Read the ledger of a thread, for reports and debugging.

    Args:
        values: The state of the thread: `agent.get_state(config).values`.

    Returns:
        The record, or None before the first model call.

    Raises:
        LedgerError: If the ledger cannot be read.
    """
    return unpack(cast("Mapping[str, Any] | None", values.get(LEDGER_CHANNEL)))


def rebase_update(values: Mapping[str, Any], reason: str = "requested") -> dict[str, Any]:
    """Ask for a new epoch with the thread's next model call: errata are folded into a new baseline.

        agent.update_state(config, rebase_update(agent.get_state(config).values, "the policy changed"))

    Args:
        values: The state of the thread.
        reason: Why; it is recorded and reported.

    Returns:
        An update of the thread's state; an empty one for a thread without a model call.

    Raises:
        LedgerError: If the ledger cannot be read.
    """
    record = read_ledger(values)
    return {} if record is None else {LEDGER_CHANNEL: pack(replace(record, rebase=reason))}


def call_update(values: Mapping[str, Any], usage: Usage | None) -> dict[str, Any]:
    """Count a model call of which nothing else is recorded.

    Args:
        values: The state of the thread.
        usage: What the provider reported.

    Returns:
        An update of the thread's state; an empty one for a thread without a model call.

    Raises:
        LedgerError: If the ledger cannot be read.
    """
    record = read_ledger(values)
    if record is None:
        return {}
    total = record.usage + usage if usage else record.usage
    return {LEDGER_CHANNEL: pack(replace(record, usage=total, calls=record.calls + 1))}
