-- The oldest minute from `since` on that has moves or measures, '' if there is none, and the first
-- minute that may not be closed yet: it is over for less than `open` seconds, or has moves that are not
-- folded.
-- KEYS: partition
-- ARGV: now open since
-- uses: time
local function oldest(name, from)
    return redis.call('ZRANGEBYSCORE', partition .. ':' .. name, from, '+inf', 'LIMIT', 0, 1)[1]
end

local horizon = math.floor((moment - open * 1000000) / 60000000)
local moved, measured, unfolded = oldest('minutes', since), oldest('measured', since), oldest('unfolded', '-inf')
local minute = math.min(tonumber(moved or math.huge), tonumber(measured or math.huge))
if unfolded then
    horizon = math.min(horizon, tonumber(unfolded))
end
if minute == math.huge then
    return {'', string.format('%.0f', horizon)}
end
return {string.format('%.0f', minute), string.format('%.0f', horizon)}
