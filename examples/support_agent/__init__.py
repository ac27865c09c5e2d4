"""A retail support agent: four ways to keep a model informed, compared in one run."""
