"""Average adapters: what a later run learned, with less of what it forgot.

    python -m examples.support_agent.training.average OUT.safetensors A.safetensors=0.2 B.safetensors=0.8

Both matrices of each layer are averaged, which means something for adapters of one line of training only.
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from pathlib import Path
from typing import Any, cast

import torch
from safetensors import torch as untyped
from torch import Tensor

_safetensors: Any = cast("Any", untyped)  # its functions are typed in part


def average(adapters: Mapping[Path, float]) -> dict[str, Tensor]:
    """The weighted mean of some adapters.

    Args:
        adapters: File and weight; the weights are brought to a sum of 1.

    Returns:
        The tensors, in bfloat16.

    Raises:
        ValueError: The adapters have other layers.
    """
    whole = sum(adapters.values())
    found: list[tuple[dict[str, Tensor], float]] = [
        (_safetensors.load_file(file), weight / whole) for file, weight in adapters.items()
    ]
    names = found[0][0].keys()
    if any(tensors.keys() != names for tensors, _ in found):
        raise ValueError("the adapters have other layers")
    return {
        name: sum((weight * tensors[name].float() for tensors, weight in found), torch.zeros(())).to(torch.bfloat16)
        for name in names
    }


def _part(text: str) -> tuple[Path, float]:
    file, _, weight = text.rpartition("=")
    return Path(file), float(weight)


def main() -> None:
    """Parse the arguments and write the mean."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("out", type=Path)
    parser.add_argument("adapters", type=_part, nargs="+", metavar="FILE=WEIGHT")
    options = parser.parse_args()
    _safetensors.save_file(average(dict(options.adapters)), options.out)


if __name__ == "__main__":
    main()
