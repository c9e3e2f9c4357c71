-- ARGV: for each node its id, its place in line, its arguments, its flow, for how many edges it waits, who
-- waits for it (ids, each with a comma behind it).
local texts, ready, blocked, open = {}, {}, {}, {}
for n = 1, #ARGV, 6 do
    local id, waits = ARGV[n], ARGV[n + 4]
    texts[#texts + 1], texts[#texts + 2] = 'floor:body:' .. id, ARGV[n + 2]
    texts[#texts + 1], texts[#texts + 2] = 'floor:flow:' .. id, ARGV[n + 3]
    if ARGV[n + 5] ~= '' then
        texts[#texts + 1], texts[#texts + 2] = 'floor:out:' .. id, ARGV[n + 5]
    end
    if waits == '0' then
        ready[#ready + 1], ready[#ready + 2] = ARGV[n + 1], id
    else
        blocked[#blocked + 1], blocked[#blocked + 2] = id, waits
    end
    open[ARGV[n + 3]] = (open[ARGV[n + 3]] or 0) + 1
end
redis.call('MSET', unpack(texts))
redis.call('ZADD', 'floor:ready', unpack(ready))
redis.call('HSET', 'floor:waits', unpack(blocked))
for flow, nodes in pairs(open) do
    redis.call('HSET', 'floor:open', flow, nodes)
end
return #ARGV / 6
