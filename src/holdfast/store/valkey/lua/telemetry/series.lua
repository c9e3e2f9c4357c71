-- The points of one step and grain from `first` to `last`, and the measures of that time that are not
-- rolled up yet. Answers where `rolled` is, then a list of minute, lines and rows, minute, …, then a
-- list of minute, fields and measures, minute, ….
-- KEYS: partition
-- ARGV: name first last lines
-- uses: rolling
--
-- `name`: the step and the grain. `lines`: the names of the points, or none for all of them.
local wanted = cmsgpack.unpack(lines)

local function rows_of(key)
    if #wanted == 0 then
        return redis.call('HGETALL', key)
    end
    local found, rows = redis.call('HMGET', key, unpack(wanted)), {}
    for n = 1, #wanted do
        if found[n] then
            rows[#rows + 1] = wanted[n]
            rows[#rows + 1] = found[n]
        end
    end
    return rows
end

local points, measures, since = {}, {}, math.max(tonumber(first), rolled())
for _, at in ipairs(redis.call('ZRANGEBYSCORE', partition .. ':steps:' .. name, first, last)) do
    points[#points + 1] = at
    points[#points + 1] = rows_of(partition .. ':series:' .. name .. ':' .. at)
end
for _, minute in ipairs(redis.call('ZRANGEBYSCORE', partition .. ':measured', since, last)) do
    measures[#measures + 1] = minute
    measures[#measures + 1] = redis.call('HGETALL', partition .. ':measures:' .. minute)
end
return {string.format('%.0f', rolled()), points, measures}
