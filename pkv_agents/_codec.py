"""The ledger's stored form: plain JSON data, read with suspicion.

Nothing read here can run code, and nothing unknown is guessed at. Leaves are lists of pairs, because some stores do not
keep the order of an object's keys.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any, TypeVar, cast

from .anchors import Anchor
from .diff import Change
from .errata import check_tag
from .errors import LedgerError, SessionError
from .ledger import LEDGER_VERSION, Epoch, Erratum, Ledger, Sent
from .paths import is_path
from .snapshots import LeafMeta, Snapshot

T = TypeVar("T")

FORMAT = "pkv-agents/ledger"


def encode(ledger: Ledger) -> dict[str, object]:
    """A ledger as dicts, lists, strings and numbers."""
    return {
        "format": FORMAT,
        "version": ledger.version,
        "revision": ledger.revision,
        "last": ledger.last,
        "epochs": [_encode_epoch(epoch) for epoch in ledger.epochs],
        "sent": [_encode_sent(sent) for sent in ledger.sent],
        "refused": list(ledger.refused),
    }


def _encode_sent(sent: Sent) -> dict[str, object]:
    return {
        "end": list(sent.end),
        "epoch": sent.epoch,
        "model": sent.model,
        "revision": sent.revision,
        "at": sent.at.isoformat() if sent.at is not None else None,
        "answer": sent.answer,
    }


def _encode_epoch(epoch: Epoch) -> dict[str, object]:
    return {
        "number": epoch.number,
        "start": list(epoch.start),
        "first": list(epoch.first) if epoch.first is not None else None,
        "tag": epoch.tag,
        "reason": epoch.reason,
        "head": epoch.head,
        "baseline": [[path, text] for path, text in epoch.baseline.leaves.items()],
        "pinned": [path for path, meta in epoch.baseline.meta.items() if meta.pinned],
        "baseline_text": epoch.baseline_text,
        "observed": [[path, at.isoformat()] for path, at in epoch.observed.items()],
        "errata": [
            {
                "anchor": list(erratum.anchor),
                "text": erratum.text,
                "carrier": erratum.carrier,
                "revision": erratum.revision,
                "changes": [_encode_change(change) for change in erratum.changes],
            }
            for erratum in epoch.errata
        ],
    }


def decode(data: Mapping[str, object]) -> Ledger:
    """A ledger from its stored form; see `Ledger.from_dict`."""
    if not isinstance(data, Mapping) or data.get("format") != FORMAT:  # pyright: ignore[reportUnnecessaryIsInstance]
        raise LedgerError(f"this is no ledger (format {FORMAT!r} expected); nothing was read or changed")
    version = _get(data, "version", int, "ledger")
    if version != LEDGER_VERSION:
        raise LedgerError(
            f"the ledger has version {version}, this library reads {LEDGER_VERSION}; "
            "update pkv-agents, or start a new session; nothing was changed"
        )
    epochs = [_decode_epoch(item, f"epochs[{index}]") for index, item in _items(data, "epochs", "ledger")]
    if len({epoch.number for epoch in epochs}) != len(epochs):
        raise LedgerError("the ledger is damaged: two epochs have one number")
    return Ledger(
        version=version,
        revision=_get(data, "revision", int, "ledger"),
        last=_get(data, "last", str, "ledger"),
        epochs=tuple(epochs),
        sent=tuple(_decode_sent(item, f"sent[{index}]") for index, item in _items(data, "sent", "ledger")),
        refused=tuple(str(name) for _, name in _items(data, "refused", "ledger")),
    )


def _decode_sent(data: object, where: str) -> Sent:
    return Sent(
        end=_anchor(data, "end", where),
        epoch=_get(data, "epoch", int, where),
        model=_get(data, "model", str, where),
        revision=_get(data, "revision", int, where),
        at=_moment(_get(data, "at", str, where), where) if _has(data, "at") else None,
        answer=_get(data, "answer", str, where),
    )


def _has(data: object, name: str) -> bool:
    return isinstance(data, Mapping) and cast("Mapping[str, object]", data).get(name) is not None


def _decode_epoch(data: object, where: str) -> Epoch:
    pinned = {str(path) for _, path in _items(data, "pinned", where)}
    leaves = dict(_leaves(data, "baseline", where))
    return Epoch(
        number=_get(data, "number", int, where),
        start=_anchor(data, "start", where),
        first=_anchor(data, "first", where) if _has(data, "first") else None,
        tag=_tag(data, where),
        baseline=Snapshot(leaves, {path: LeafMeta(pinned=True) for path in leaves if path in pinned}),
        baseline_text=_get(data, "baseline_text", str, where),
        errata=tuple(_decode_erratum(item, f"{where}.errata[{at}]") for at, item in _items(data, "errata", where)),
        reason=_get(data, "reason", str, where),
        head=_get(data, "head", str, where),
        observed={path: _moment(text, where) for path, text in _leaves(data, "observed", where)},
    )


def _tag(data: object, where: str) -> str:
    try:
        return check_tag(_get(data, "tag", str, where))
    except SessionError:
        raise LedgerError(f"the ledger is damaged: {where}.tag is no tag; nothing was changed") from None


def _moment(text: str, where: str) -> datetime:
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise LedgerError(f"the ledger is damaged: {where} has a time that is none; nothing was changed") from None
    if moment.tzinfo is None:
        raise LedgerError(f"the ledger is damaged: {where} has a time without a zone; nothing was changed")
    return moment


def _decode_erratum(data: object, where: str) -> Erratum:
    carrier = _get(data, "carrier", str, where)
    if carrier not in ("system", "user_suffix"):
        raise LedgerError(f"the ledger is damaged at {where}: unknown carrier {carrier!r}")
    changes = (_decode_change(item, f"{where}.changes[{at}]") for at, item in _items(data, "changes", where))
    anchor, text = _anchor(data, "anchor", where), _get(data, "text", str, where)
    return Erratum(anchor, text, carrier, tuple(changes), _get(data, "revision", int, where))


def _anchor(data: object, name: str, where: str) -> Anchor:
    match cast("list[object]", _get(data, name, list, where)):
        case [int() as after, str() as hash_] if after >= 0:
            return Anchor(after, hash_)
        case _:
            raise LedgerError(f"the ledger is damaged: {where}.{name} is no anchor; nothing was changed")


def _encode_change(change: Change) -> dict[str, object]:
    encoded: dict[str, object] = {
        "path": change.path,
        "kind": change.kind,
        "text": change.text,
        "leaves": [[path, text] for path, text in change.leaves],
    }
    if change.edits:
        encoded["edits"] = change.edits
    if change.untrusted:
        encoded["untrusted"] = True
    return encoded


def _decode_change(data: object, where: str) -> Change:
    kind = _get(data, "kind", str, where)
    if kind not in ("set", "remove"):
        raise LedgerError(f"the ledger is damaged at {where}: unknown kind {kind!r}")
    leaves = tuple(_leaves(data, "leaves", where))
    record = cast("Mapping[str, object]", data)
    edits = _get(data, "edits", str, where) if "edits" in record else ""
    path, text = _get(data, "path", str, where), _get(data, "text", str, where)
    if not is_path(path):
        raise LedgerError(f"the ledger is damaged: {where}.path is no path; nothing was changed")
    return Change(path, cast(Any, kind), text, leaves, edits, record.get("untrusted") is True)


def _get(data: object, name: str, kind: type[T], where: str) -> T:
    value = cast("Mapping[str, object]", data).get(name) if isinstance(data, Mapping) else None
    if not isinstance(value, kind) or isinstance(value, bool):
        raise LedgerError(f"the ledger is damaged: {where}.{name} is no {kind.__name__}; nothing was changed")
    return value


def _items(data: object, name: str, where: str) -> list[tuple[int, object]]:
    return list(enumerate(cast("list[object]", _get(data, name, list, where))))


def _leaves(data: object, name: str, where: str) -> list[tuple[str, str]]:
    """Pairs whose first is a path."""
    pairs = _pairs(data, name, where)
    for at, (path, _) in enumerate(pairs):
        if not is_path(path):
            raise LedgerError(f"the ledger is damaged: {where}.{name}[{at}] has no path; nothing was changed")
    return pairs


def _pairs(data: object, name: str, where: str) -> list[tuple[str, str]]:
    pairs: list[tuple[str, str]] = []
    for at, item in _items(data, name, where):
        pair = cast("list[object]", item) if isinstance(item, list) else []
        match pair:
            case [str() as path, str() as text]:
                pairs.append((path, text))
            case _:
                raise LedgerError(f"the ledger is damaged: {where}.{name}[{at}] is no pair; nothing was changed")
    return pairs
