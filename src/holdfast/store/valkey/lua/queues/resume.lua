-- Allow claims again, end any cool-down, and wake the workers.
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
        redis.call('SREM', partition .. ':paused', name)
    else
        local row = cmsgpack.unpack(redis.call('HGET', key, name) or fresh)
        row[QUEUE_PAUSED], row[QUEUE_COOL_UNTIL], row[QUEUE_THROTTLES] = false, false, 0
        redis.call('HSET', key, name, cmsgpack.pack(row))
    end
    redis.call('PUBLISH', channel, 'ready:' .. name)
end
return 1
