-- Count the ready jobs of some lines that stand before a position, up to a limit.
-- KEYS: partition
-- ARGV: priority seq limit lines
local most, before = tonumber(limit), 0
for _, name in ipairs(cmsgpack.unpack(lines)) do
    local key = partition .. ':ready:' .. name
    before = before + redis.call('ZCOUNT', key, '-inf', '(' .. priority)
    local peers = redis.call('ZRANGEBYSCORE', key, priority, priority, 'LIMIT', 0, most)
    for n = 1, #peers do
        if before >= most or peers[n] >= seq then
            break
        end
        before = before + 1
    end
end
return math.min(before, most)
