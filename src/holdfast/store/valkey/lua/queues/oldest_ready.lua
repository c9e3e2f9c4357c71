-- When the oldest ready job of each line became ready. The first job of each priority is its
-- oldest.
-- KEYS: partition
-- ARGV: lines
-- uses: record
local PRIORITIES = 64

-- Ends of a line are found faster than a priority, and most lines have one priority only.
local function heads_of(key)
    local ids, first = {}, redis.call('ZRANGE', key, 0, 0, 'WITHSCORES')
    local last = redis.call('ZRANGE', key, -1, -1, 'WITHSCORES')[2]
    while first[1] and #ids < PRIORITIES do
        ids[#ids + 1] = string.sub(first[1], SEQ_LENGTH + 1)
        if first[2] == last then
            break
        end
        local above = '(' .. first[2]
        first = redis.call('ZRANGEBYSCORE', key, above, '+inf', 'WITHSCORES', 'LIMIT', 0, 1)
    end
    return ids
end

-- The lines with limits by queue and task; of very many lines, some.
local limited = {}
for _, one in ipairs(redis.call('HRANDFIELD', partition .. ':lines', 1000)) do
    local name = string.match(one, '^[^\n]*')
    limited[name] = limited[name] or {}
    table.insert(limited[name], one)
end

local function add_limited(name, found)
    for _, one in ipairs(limited[name] or {}) do
        local first = redis.call('ZRANGE', partition .. ':limited:' .. one, 0, 0)[1]
        found[#found + 1] = first and string.match(first, '^[^ ]+', SEQ_LENGTH + 1)
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

local ready_at = {}

-- Raises an error if one of these values is no record at all.
local function note_times(ids, first, found)
    for n = 1, #found do
        if found[n] then
            ready_at[ids[first + n - 1]] = select(READY_AT, first_values(found[n], READY_AT))
        end
    end
end

each_record(ids, note_times)

local answer = {}
for n, of_line in ipairs(heads) do
    local oldest = math.huge
    for _, id in ipairs(of_line) do
        oldest = math.min(oldest, ready_at[id] or math.huge)
    end
    answer[n] = oldest < math.huge and string.format('%.0f', oldest) or ''
end
return answer
