"""The tests, by area. A package, so that no `tests` of another distribution can stand in for it."""
