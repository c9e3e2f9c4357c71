-- Everything the store holds, for stores that were made for a while.
drop schema if exists {{schema}} cascade
