-- ARGV: how many. Take the first of the line and answer ids, then bodies.
local popped = redis.call('ZPOPMIN', 'floor:ready', ARGV[1])
local ids, keys, running = {}, {}, {}
for n = 1, #popped, 2 do
    ids[#ids + 1] = popped[n]
    keys[#keys + 1] = 'floor:body:' .. popped[n]
    running[#running + 1] = 0
    running[#running + 1] = popped[n]
end
if #ids == 0 then
    return {}
end
redis.call('ZADD', 'floor:running', unpack(running))
return {ids, redis.call('MGET', unpack(keys))}
