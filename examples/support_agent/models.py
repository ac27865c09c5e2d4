"""Which model answers: the embedded one with the shop's adapter, another local one, or one behind an API.

- `embedded`, the default: SmolLM2-135M-Instruct, fetched once, with the adapter in `adapter/`;
- a path or a hub id: a Hugging Face model in this process;
- `http://host/v1`: an OpenAI-compatible server; `http://host/v1#name` if it serves several models;
- `openai:gpt-5`, `anthropic:...`: what the framework knows by such a name.

Loading, adapters, salts and errors are here, the same for each framework; `langchain_models.py` and
`llama_index_models.py` make the framework's own model of what was chosen.
"""

from __future__ import annotations

import json
import math
import os
import re
import sys
import warnings
from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Protocol, cast

from pkv_agents import AdapterError, Message, ModelError, UnsupportedModelError, estimate_tokens

from .embedded import ensure_model
from .langchain_models import LangChainModels

if TYPE_CHECKING:
    from pkv_agents.local import LocalModel

EMBEDDED = "embedded"
ADAPTER = Path(__file__).with_name("adapter")
SKILLS_ADAPTER = Path(__file__).with_name("adapter_skills")
"""The same shop's, trained further on rules that are skills and come in updates."""
AT_ONCE_ADAPTER = Path(__file__).with_name("adapter_at_once")
"""For measurements: it calls a tool at once, by one rule or two, and writes no line with the deciding field before."""
NO_ADAPTER = "none"

_LOCAL_TOKENS = 80
_PREFACE = 64
"""Characters of the line before the call. The longest right answer has about 55 tokens on the embedded model."""
_HOSTED_TOKENS = 1024
"""A model that reasons needs room before its call."""
_CACHE_BYTES = 1 << 30

TtftSource = Literal["engine", "stream", "call"]


@dataclass(frozen=True, slots=True)
class Choice:
    """A model that is ready to answer.

    Attributes:
        name: What reports call it.
        for_arm: Gives the framework's model for one arm; a local one under a salt of its own and with an empty cache.
        count: Counts the tokens of a text.
        counts_exactly: `count` is the model's own tokenizer and no estimate.
        ttft: Where the time to the first token comes from: the engine, the stream, or the whole call.
        adapter: The adapter's folder, or None.
    """

    name: str
    for_arm: Callable[[str], Any]
    count: Callable[[str], int]
    counts_exactly: bool
    ttft: TtftSource
    adapter: str | None = None


class Models(Protocol):
    """How a framework makes its models."""

    def local(self, local: LocalModel, *, salt: str, max_tokens: int, preface: int) -> Any:
        """Of a model in this process, under a salt of its own."""
        ...

    def hosted(self, spec: str, *, max_tokens: int) -> tuple[Any, TtftSource]:
        """Of a name like `openai:gpt-5`; and where the time to its first token comes from.

        Raises:
            ImportError: The provider's package is missing.
            ValueError: The framework knows no such provider, or misses a setting.
        """
        ...

    def server(self, url: str, name: str, key: str, *, max_tokens: int) -> Any:
        """Of a server that speaks OpenAI's protocol; it streams and reports its usage."""
        ...


def choose_model(spec: str = EMBEDDED, *, adapter: str | None = None, models: Models | None = None) -> Choice:
    """Load or connect.

    Args:
        spec: See the module's text.
        adapter: A folder with a LoRA adapter; by default the shop's for the embedded model and none for others.
            `none` leaves it out.
        models: The framework's; LangChain's by default.

    Raises:
        ModelError: If there is no such model, or it cannot be used; one line.
        AdapterError: If the adapter is missing or belongs to another model.
    """
    models = models or LangChainModels()
    if spec.startswith(("http://", "https://")):
        return _server(spec, models)
    if not Path(spec).exists() and re.fullmatch(r"[a-z_]+:.+", spec):
        return _hosted(spec, models)
    embedded = spec == EMBEDDED
    folder = str(ensure_model()) if embedded else spec
    chosen = adapter or (str(ADAPTER) if embedded else NO_ADAPTER)
    name = "SmolLM2-135M-Instruct (embedded)" if embedded else Path(spec).name if Path(spec).exists() else spec
    return _local(folder, name, None if chosen == NO_ADAPTER else Path(chosen), models)


def _local(folder: str, name: str, adapter: Path | None, models: Models) -> Choice:
    from pkv_agents.local import LocalModel

    model, tokenizer = _load(folder)
    if adapter is not None:
        model = with_adapter(model, adapter)
    local = LocalModel(model.eval(), tokenizer, cache_bytes=_CACHE_BYTES)
    local.generate([Message("user", "Hello")], max_tokens=1)  # a process's first forward is slower than all others

    def for_arm(arm: str) -> Any:
        local.clear_cache()
        return models.local(local, salt=arm, max_tokens=_LOCAL_TOKENS, preface=_PREFACE)

    def count(text: str) -> int:
        return len(tokenizer.encode(text, add_special_tokens=False))

    return Choice(name, for_arm, count, counts_exactly=True, ttft="engine", adapter=str(adapter) if adapter else None)


def _load(folder: str) -> tuple[Any, Any]:
    """The model in float32 and its tokenizer. Decisions are compared, so near-ties must not fall by rounding."""
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer
    from transformers.utils import logging

    from pkv_agents.kv import keep_freed_memory

    keep_freed_memory()
    logging.set_verbosity_error()
    logging.disable_progress_bar()
    try:
        tokenizer = cast("Any", AutoTokenizer).from_pretrained(folder)
        model = cast("Any", AutoModelForCausalLM).from_pretrained(folder, dtype=torch.float32)
    except (OSError, ValueError, KeyError) as error:
        raise ModelError(f"cannot load a model from {folder!r}: {_first_line(error)}") from error
    return model, tokenizer


def with_adapter(model: Any, folder: Path) -> Any:
    """The model with a LoRA adapter added into its weights, which then cost nothing at run time.

    Raises:
        AdapterError: If there is no adapter in the folder, or it does not fit the model.
    """
    check_adapter(model, folder)
    from peft import PeftModel

    try:
        with warnings.catch_warnings():  # peft 0.21 asks transformers for a name that is on its way out
            warnings.filterwarnings("ignore", message="`is_gradient_checkpointing` is deprecated")
            return cast("Any", PeftModel).from_pretrained(model, folder).merge_and_unload()
    except (ValueError, RuntimeError, KeyError, TypeError) as error:
        raise AdapterError(f"the adapter in {folder} does not fit this model: {_first_line(error)}") from error


def check_adapter(model: Any, folder: Path) -> None:
    """Compare each matrix of an adapter with the layer that it is for, before peft touches the model.

    Raises:
        AdapterError: If there is no adapter in the folder, or it is for another model.
    """
    from safetensors import SafetensorError, safe_open

    try:
        config: Any = json.loads((folder / "adapter_config.json").read_text(encoding="utf-8"))
        with cast("Any", safe_open)(folder / "adapter_model.safetensors", framework="pt") as tensors:
            names: list[str] = list(tensors.keys())
            shapes: dict[str, list[int]] = {name: tensors.get_slice(name).get_shape() for name in names}
    except FileNotFoundError as error:
        files = "adapter_config.json and adapter_model.safetensors"
        raise AdapterError(f"no adapter in {folder}: it takes {files}") from error
    except (OSError, ValueError, SafetensorError) as error:
        raise AdapterError(f"the adapter in {folder} cannot be read: {_first_line(error)}") from error
    base = config.get("base_model_name_or_path")
    layers: dict[str, Any] = dict(model.named_modules())
    for name, shape in shapes.items():
        found = re.fullmatch(r"base_model\.model\.(.+)\.lora_(A|B)\.weight", name)
        layer = layers.get(found[1]) if found else None
        if found is None or layer is None:
            raise AdapterError(f"the adapter in {folder} is for another model ({base}): this one has no {name!r}")
        mine = layer.in_features if found[2] == "A" else layer.out_features
        theirs = shape[1] if found[2] == "A" else shape[0]
        if mine != theirs:
            raise AdapterError(
                f"the adapter in {folder} is for another model ({base}): its {found[1]} has width {theirs}, "
                f"this model's has {mine}"
            )
    _check_base(model, folder, base)


def _near(one: float, other: float) -> bool:
    return math.isclose(one, other, rel_tol=0.01, abs_tol=1e-3)


def _check_base(model: Any, folder: Path, base: object) -> None:
    """Compare some weights that the adapter leaves alone with those of the model it was trained on.

    Another model of the same shape would take the adapter without a word and decide at random. Norms are kept in full
    precision by quantised files too, so every honest copy of the base passes.
    """
    file = folder / "base_weights.json"
    if not file.is_file():
        return
    weights: dict[str, Any] = dict(model.named_parameters())
    for name, expected in cast("dict[str, list[float]]", json.loads(file.read_text(encoding="utf-8"))).items():
        tensor = weights.get(name)
        mine: list[float] = tensor.detach().flatten()[: len(expected)].tolist() if tensor is not None else []
        if len(mine) != len(expected) or not all(map(_near, mine, expected)):
            raise AdapterError(f"the adapter in {folder} is for another model ({base}): {name} differs")


def _hosted(spec: str, models: Models) -> Choice:
    with foreign_errors():
        try:
            llm, ttft = models.hosted(spec, max_tokens=_HOSTED_TOKENS)
        except (ImportError, ValueError) as error:
            raise ModelError(f"cannot use {spec!r}: {_first_line(error)}") from error
    return Choice(spec, lambda arm: llm, estimate_tokens, counts_exactly=False, ttft=ttft)


def _server(spec: str, models: Models) -> Choice:
    from openai import OpenAI

    url, _, name = spec.partition("#")
    key = os.environ.get("OPENAI_API_KEY") or "none"
    with foreign_errors():
        if not name:
            with OpenAI(base_url=url, api_key=key, max_retries=0) as client:
                name = next((model.id for model in client.models.list()), "")
        if not name:
            raise UnsupportedModelError(f"{url} serves no model")
        llm = models.server(url, name, key, max_tokens=_HOSTED_TOKENS)
    return Choice(f"{name} at {url}", lambda arm: llm, estimate_tokens, counts_exactly=False, ttft="stream")


@contextmanager
def foreign_errors() -> Generator[None]:
    """Turn the errors of the API clients into ours, in one line.

    Raises:
        ModelError: For an error of a client that is loaded in this process.
    """
    try:
        yield
    except Exception as error:
        if not isinstance(error, _client_errors()):
            raise
        raise ModelError(f"the model's API failed: {type(error).__name__}: {_first_line(error)}") from error


def _client_errors() -> tuple[type[Exception], ...]:
    """The errors of the clients that are loaded by now: many a client is loaded by the very call that fails."""
    known = {"openai": "OpenAIError", "anthropic": "AnthropicError", "httpx": "HTTPError"}
    loaded = [(sys.modules[module], name) for module, name in known.items() if module in sys.modules]
    return tuple(cast("type[Exception]", getattr(module, name)) for module, name in loaded if hasattr(module, name))


def _first_line(error: BaseException) -> str:
    lines = str(error).strip().splitlines()
    return lines[0].rstrip() if lines else type(error).__name__


__all__ = [
    "ADAPTER",
    "AT_ONCE_ADAPTER",
    "EMBEDDED",
    "NO_ADAPTER",
    "SKILLS_ADAPTER",
    "Choice",
    "Models",
    "check_adapter",
    "choose_model",
    "foreign_errors",
]
