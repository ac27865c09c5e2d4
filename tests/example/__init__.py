"""The support agent and the embedded model."""
