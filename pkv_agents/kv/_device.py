"""Numbers from the host to the model's device, without waiting for it."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import torch


def on_device(numbers: npt.ArrayLike, device: torch.device) -> torch.Tensor:
    """Whole numbers (token ids, positions) as a tensor of 64-bit integers.

    The plain way, `torch.tensor(..., device=...)`, lets the host wait until a GPU has finished all its work.
    """
    host = torch.from_numpy(np.array(numbers, dtype=np.int64))  # pyright: ignore[reportUnknownMemberType] -- upstream
    return host.to(device, non_blocking=True)
