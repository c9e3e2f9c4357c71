"""The store on Valkey or Redis: one Lua script for each verb, one hash tag for each partition."""
