-- Record that the layout of this program is in use, unless one is recorded already.
-- KEYS: meta
-- ARGV: version name partitions
--
-- Answers the recorded version and partitions, and 1 if they were recorded now. A store that is in
-- use is only read, so it can be opened when its server has no memory left.
local is_new = redis.call('HEXISTS', meta, 'version') == 0
if is_new then
    redis.call('HSET', meta, 'version', version, 'name', name, 'partitions', partitions)
end
local found = redis.call('HMGET', meta, 'version', 'partitions')
return {found[1], found[2], is_new and 1 or 0}
