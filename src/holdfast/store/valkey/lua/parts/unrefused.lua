-- A server at its memory limit refuses a script whose first write may need memory. After a first
-- write that needs none it refuses nothing more. So a verb that must not be refused then begins
-- with the removal of a key that is never there: one that lets running work go on, or that an
-- operator needs to make room. Verbs that remove something first anyway do without.
redis.call('DEL', partition .. ':nothing')
