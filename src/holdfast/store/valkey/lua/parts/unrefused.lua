-- A server at its memory limit refuses a script whose first write may need memory. After a first
-- write that needs none, it refuses nothing more. So a verb that must not be refused (running work
-- needs it, or an operator who makes room) begins with the removal of a key that never exists.
-- Verbs that begin with another removal do without.
redis.call('DEL', partition .. ':nothing')
