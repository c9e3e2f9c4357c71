-- Stop claims from these queues, made if absent, and tell the workers.
-- KEYS: partition
-- ARGV: names fresh
-- uses: unrefused
--
-- `fresh`: the packed row of a queue that is absent. A name that begins with a star stands for all
-- queues or for the jobs of a task, and has no row.
local key = partition .. ':queues'
local channel = partition:gsub(':%d+}$', '}') .. ':wake'
for _, name in ipairs(cmsgpack.unpack(names)) do
    if string.sub(name, 1, 1) == '*' then
        redis.call('SADD', partition .. ':paused', name)
    else
        local row = cmsgpack.unpack(redis.call('HGET', key, name) or fresh)
        row[QUEUE_PAUSED] = true
        redis.call('HSET', key, name, cmsgpack.pack(row))
    end
    redis.call('PUBLISH', channel, 'paused:' .. name)
end
return 1
