"""Tools for testing programs that use Holdfast."""
