"""What connects Holdfast to other libraries. Each needs an extra of its own."""
