"""Turn a quantised GGUF into a folder of bfloat16 safetensors, tokenizer and chat template.

A program of its own, so that the conversion's memory, warnings and progress bars stay out of the caller's process:

    python -m examples.support_agent.dequantise MODEL.gguf FOLDER
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import torch
import transformers

# The annotations of the Auto classes do not describe what they give (a model that moves, a tokenizer that saves).
hf: Any = transformers


def dequantise(gguf: Path, into: Path) -> None:
    """Load a GGUF and save it dequantised.

    Args:
        gguf: the file; its chat template comes along.
        into: an existing folder.
    """
    model = hf.AutoModelForCausalLM.from_pretrained(gguf.parent, gguf_file=gguf.name, dtype=torch.float32)
    model = model.to(torch.bfloat16)
    # transformers still takes it for a quantised model, and would refuse to save it.
    model.hf_quantizer = None
    del model.config.quantization_config
    model.config._name_or_path = ""
    model.save_pretrained(into)
    hf.AutoTokenizer.from_pretrained(gguf.parent, gguf_file=gguf.name).save_pretrained(into)


if __name__ == "__main__":
    dequantise(Path(sys.argv[1]), Path(sys.argv[2]))
