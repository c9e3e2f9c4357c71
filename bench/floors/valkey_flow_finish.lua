-- ARGV: ids. They get an outcome that stays, and what waited only for them becomes ready.
redis.call('ZREM', 'floor:running', unpack(ARGV))
local outcomes, flows, outs, ready = {}, {}, {}, {}
for n = 1, #ARGV do
    outcomes[2 * n - 1] = 'floor:outcome:' .. ARGV[n]
    outcomes[2 * n] = 'succeeded'
    flows[n], outs[n] = 'floor:flow:' .. ARGV[n], 'floor:out:' .. ARGV[n]
end
redis.call('MSET', unpack(outcomes))
for _, flow in ipairs(redis.call('MGET', unpack(flows))) do
    redis.call('HINCRBY', 'floor:open', flow, -1)
end
for _, out in ipairs(redis.call('MGET', unpack(outs))) do
    for id in string.gmatch(out or '', '([^,]+),') do
        if redis.call('HINCRBY', 'floor:waits', id, -1) == 0 then
            ready[#ready + 1], ready[#ready + 2] = 0, id
            redis.call('HDEL', 'floor:waits', id)
        end
    end
end
redis.call('UNLINK', unpack(outs))
if #ready > 0 then
    redis.call('ZADD', 'floor:ready', unpack(ready))
end
return #ARGV
