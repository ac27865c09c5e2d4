"""What the repository must stay like: layers, names, sizes, packaging."""
