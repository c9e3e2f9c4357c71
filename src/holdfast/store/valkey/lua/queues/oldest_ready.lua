-- When the oldest ready job of each line became ready. The first job of each priority is its
-- oldest.
-- KEYS: partition
-- ARGV: lines
-- uses: record
local PRIORITIES = 64

local function ready_at(member)
    local id = string.sub(member, SEQ_LENGTH + 1)
    load({id})
    return records[id] and records[id][READY_AT] or nil
end

local function oldest_of(key)
    local oldest, above = nil, '-inf'
    for _ = 1, PRIORITIES do
        local first = redis.call('ZRANGEBYSCORE', key, above, '+inf', 'WITHSCORES', 'LIMIT', 0, 1)
        if #first == 0 then
            break
        end
        local at = ready_at(first[1])
        oldest = at and oldest and math.min(at, oldest) or at or oldest
        above = '(' .. first[2]
    end
    return oldest
end

local answer = {}
for n, name in ipairs(cmsgpack.unpack(lines)) do
    local at = oldest_of(partition .. ':ready:' .. name)
    answer[n] = at and string.format('%.0f', at) or ''
end
return answer
