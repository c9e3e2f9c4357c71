-- Write what a minute was rolled up to, and move the mark from `former` to `following`. Answers 0 if
-- somebody else has moved it: then nothing is written.
-- KEYS: partition
-- ARGV: former following points ever
-- uses: rolling
--
-- `points`: [step, grain, at, line, row]; `ever`: [line, times]
if rolled() ~= tonumber(former) then
    return 0
end
for _, minute in ipairs(redis.call('ZRANGEBYSCORE', partition .. ':measured', '-inf', '(' .. following)) do
    redis.call('UNLINK', partition .. ':measures:' .. minute)
    redis.call('ZREM', partition .. ':measured', minute)
end
for _, point in ipairs(cmsgpack.unpack(points)) do
    local name, at = string.format('%d:%s', point[1], point[2]), string.format('%.0f', point[3])
    redis.call('ZADD', partition .. ':steps:' .. name, at, at)
    redis.call('HSET', partition .. ':series:' .. name .. ':' .. at, point[4], point[5])
end
for _, one in ipairs(cmsgpack.unpack(ever)) do
    redis.call('HSET', partition .. ':ever', one[1], one[2])
end
redis.call('SET', partition .. ':rolled', following)
return 1
