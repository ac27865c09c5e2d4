"""Entry point of the training; its workers are spawned, so the code itself is an importable module."""

from .train import main

main()
