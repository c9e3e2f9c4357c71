-- When the oldest ready job of each line became ready. The first job of each priority is its
-- oldest.
-- KEYS: partition
-- ARGV: lines
-- uses: record
local PRIORITIES = 64

local function heads_of(key)
    local ids, above = {}, '-inf'
    for n = 1, PRIORITIES do
        local first = redis.call('ZRANGEBYSCORE', key, above, '+inf', 'WITHSCORES', 'LIMIT', 0, 1)
        if #first == 0 then
            break
        end
        ids[n] = string.sub(first[1], SEQ_LENGTH + 1)
        above = '(' .. first[2]
    end
    return ids
end

-- The first jobs of the lines with limits; of very many lines, those of some.
local limited = redis.call('HRANDFIELD', partition .. ':lines', 1000)

local function add_limited(name, found)
    for _, one in ipairs(limited) do
        if string.sub(one, 1, #name + 1) == name .. '\n' then
            local first = redis.call('ZRANGE', partition .. ':limited:' .. one, 0, 0)[1]
            found[#found + 1] = first and string.match(first, '^[^ ]+', SEQ_LENGTH + 1)
        end
    end
end

local heads, ids = {}, {}
for n, name in ipairs(cmsgpack.unpack(lines)) do
    heads[n] = heads_of(partition .. ':ready:' .. name)
    add_limited(name, heads[n])
    for _, id in ipairs(heads[n]) do
        ids[#ids + 1] = id
    end
end
load(ids)

local answer = {}
for n, of_line in ipairs(heads) do
    local oldest = math.huge
    for _, id in ipairs(of_line) do
        oldest = math.min(oldest, records[id] and records[id][READY_AT] or math.huge)
    end
    answer[n] = oldest < math.huge and string.format('%.0f', oldest) or ''
end
return answer
