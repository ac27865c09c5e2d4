"""Programs that use pkv-agents by its public names only."""
