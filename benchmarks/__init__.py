"""Benchmarks: what the library claims, measured. Each is a module: `python -m benchmarks.parity --help`."""
