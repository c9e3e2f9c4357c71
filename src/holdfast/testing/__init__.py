"""What tests and demos of programs built on Holdfast need."""
