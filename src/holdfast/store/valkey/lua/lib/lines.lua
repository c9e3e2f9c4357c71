-- The first jobs of a queue among the tasks that are known: the heads of their lines, merged by
-- priority and then arrival. Lines of other tasks are never read.
local MERGED_AT_ONCE = 16

local function read_on(head)
    local first = head.read
    if head.is_short then
        return false
    end
    head.read = first + head.size
    head.chunk = redis.call('ZRANGE', head.key, first, head.read - 1, 'WITHSCORES')
    head.is_short = #head.chunk < 2 * head.size
    head.at = 1
    return #head.chunk > 0
end

local function goes_before(one, other)
    local mine, theirs = tonumber(one.chunk[one.at + 1]), tonumber(other.chunk[other.at + 1])
    if mine ~= theirs then
        return mine < theirs
    end
    return one.chunk[one.at] < other.chunk[other.at]
end

local function heads_of(queue, tasks, limit)
    local heads = {}
    local size = #tasks == 1 and limit or math.min(limit, MERGED_AT_ONCE)
    for n = 1, #tasks do
        local name = line(queue, tasks[n])
        local key = partition .. ':ready:' .. name
        local head = {name = name, key = key, read = 0, size = size, taken = 0}
        if read_on(head) then
            heads[#heads + 1] = head
        end
    end
    return heads
end

local function foremost(heads)
    local best = 1
    for n = 2, #heads do
        if goes_before(heads[n], heads[best]) then
            best = n
        end
    end
    return best
end

-- Returns member, priority, member, priority, … of at most `limit` jobs, and the lines that they
-- head: name, and how many of them.
local function pick(queue, tasks, limit)
    local heads, picked, served, count = heads_of(queue, tasks, limit), {}, {}, 0
    while #heads > 0 and count < limit do
        local best = foremost(heads)
        local head = heads[best]
        local at = head.at
        picked[2 * count + 1], picked[2 * count + 2] = head.chunk[at], head.chunk[at + 1]
        count, head.at, head.taken = count + 1, at + 2, head.taken + 1
        if head.taken == 1 then
            served[#served + 1] = head
        end
        if at + 2 > #head.chunk and count < limit and not read_on(head) then
            table.remove(heads, best)
        end
    end
    return picked, served
end
