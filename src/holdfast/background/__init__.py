"""The machinery of loops that run beside the work: supervised, woken, backed off, led."""
