-- Record that the layout of this program is in use, unless one is recorded already.
-- KEYS: meta
-- ARGV: version name partitions
--
-- Answers version and partitions as they stand, and 1 if they were recorded now.
local is_new = redis.call('HSETNX', meta, 'version', version)
if is_new == 1 then
    redis.call('HSET', meta, 'name', name, 'partitions', partitions)
end
return {redis.call('HGET', meta, 'version'), redis.call('HGET', meta, 'partitions'), is_new}
