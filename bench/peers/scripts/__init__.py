"""What runs inside a peer's own environment: one file for each peer, and what they share.

Imported by a peer's workers too, so nothing here may need Holdfast or its dependencies.
"""
