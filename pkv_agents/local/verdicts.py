"""Verdicts, found once: by template, special tokens and options, in this process and across processes."""

from __future__ import annotations

import hashlib
import json
import threading
from collections import OrderedDict
from collections.abc import Mapping

from pkv_agents.errors import TemplateError
from pkv_agents.local.probe import probe
from pkv_agents.local.rendering import TextTemplate, TokenizerTemplate
from pkv_agents.local.verdict import PROBE_VERSION, TemplateVerdict

_MOST = 64
_known: OrderedDict[str, TemplateVerdict] = OrderedDict()
_lock = threading.Lock()


def probe_template(
    template: object, *, special_tokens: Mapping[str, str] | None = None, options: Mapping[str, object] | None = None
) -> TemplateVerdict:
    """The verdict on a chat template; no model is needed.

    It is found once in a process. To have it found once for many, keep `verdict.to_dict()` as JSON, and hand it to
    `remember_verdict` at the start.

    Args:
        template: The text of a Jinja chat template, or a transformers tokenizer.
        special_tokens: What a text may name, as `{"bos_token": "<s>"}`; a tokenizer knows its own.
        options: Variables of the template under which it is used, as `{"enable_thinking": False}`.

    Raises:
        TemplateError: If the template is missing, is not valid Jinja, or cannot render a question and an answer.
    """
    if isinstance(template, str):
        render = TextTemplate(template, special_tokens=special_tokens)
    else:
        render = TokenizerTemplate(template)
    key = verdict_key(render.text, special_tokens=render.special_tokens, options=options)
    with _lock:
        if key in _known:
            _known.move_to_end(key)
            return _known[key]
    verdict = probe(render, variables=render.variables, special_tokens=render.special_tokens, options=options, key=key)
    remember_verdict(verdict)
    return verdict


def remember_verdict(verdict: TemplateVerdict) -> None:
    """Has `probe_template` and the local engine use this verdict for its template, in this process.

    Args:
        verdict: One that was probed, or came back by `TemplateVerdict.from_dict`.

    Raises:
        TemplateError: If it does not say for which template it was found.
    """
    if not verdict.key:
        raise TemplateError("this verdict has no key, so nobody knows for which template it was found: probe again")
    with _lock:
        _known[verdict.key] = verdict
        while len(_known) > _MOST:
            _known.popitem(last=False)


def verdict_key(text: str, *, special_tokens: Mapping[str, str], options: Mapping[str, object] | None) -> str:
    """The digest of all that decides a verdict."""
    data = [PROBE_VERSION, text, dict(special_tokens), dict(options or {})]
    plain = json.dumps(data, sort_keys=True, default=str, ensure_ascii=True)
    return hashlib.blake2b(plain.encode(), digest_size=16).hexdigest()
