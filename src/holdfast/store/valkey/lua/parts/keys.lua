-- Which job holds a unique key: the one that has taken it, while it is in one of the states for which
-- it asked, and in any state until its period is over. A period is kept as its end and the id.
local periods = {}

local function in_period(id, key)
    local kept = periods[key] or redis.call('HGET', partition .. ':unique_until', key)
    if not kept then
        return false
    end
    local till, owner = string.match(kept, '^(%d+) (.*)$')
    return owner == id and tonumber(till) > moment
end

local function holds_key(id, record)
    local states = record[KEY_STATES] or ''
    return string.find(states, ' ' .. record[STATE] .. ' ', 1, true) or in_period(id, record[KEY])
end

local function take_key(id, key, period)
    taken[key] = id
    if period then
        periods[key] = string.format('%.0f', after(period)) .. ' ' .. id
        after_all[#after_all + 1] = {'HSET', partition .. ':unique_until', key, periods[key]}
    end
end
