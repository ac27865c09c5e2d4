"""How the shop's adapter was trained: random worlds, a fast forward, a curriculum.

Run it with `python -m examples.support_agent.training --out DIR`.
"""
