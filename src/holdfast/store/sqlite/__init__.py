"""The SQLite backend: one file, WAL, one writer thread for each opened store."""
