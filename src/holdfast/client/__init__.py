"""What a program may ask of the store and tell it, outside of a worker."""
