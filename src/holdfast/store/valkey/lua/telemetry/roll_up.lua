-- Write what a minute was rolled up to, and move the mark from `former` to `following`. Answers 0 if
-- somebody else has moved it: then nothing is written.
-- KEYS: partition
-- ARGV: former following points ever
-- uses: rolling
--
-- `points`: [step and grain, at, [line, row, …]]; `ever`: [line, times, …]
local MOST_FIELDS = 2000
if rolled() ~= tonumber(former) then
    return 0
end
for _, minute in ipairs(redis.call('ZRANGEBYSCORE', partition .. ':measured', '-inf', '(' .. following)) do
    redis.call('UNLINK', partition .. ':measures:' .. minute)
    redis.call('ZREM', partition .. ':measured', minute)
end

-- A call takes no more than some thousand values.
local function set_fields(key, fields)
    for first = 1, #fields, MOST_FIELDS do
        redis.call('HSET', key, unpack(fields, first, math.min(first + MOST_FIELDS - 1, #fields)))
    end
end

for _, points_at in ipairs(cmsgpack.unpack(points)) do
    local name, at = points_at[1], string.format('%.0f', points_at[2])
    redis.call('ZADD', partition .. ':steps:' .. name, at, at)
    set_fields(partition .. ':series:' .. name .. ':' .. at, points_at[3])
end
set_fields(partition .. ':ever', cmsgpack.unpack(ever))
redis.call('SET', partition .. ':rolled', following)
return 1
