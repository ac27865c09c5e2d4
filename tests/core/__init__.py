"""The pure core: bytes, properties, reports."""
