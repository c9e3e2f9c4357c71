-- Removes everything that the store holds.
drop schema if exists {{schema}} cascade
