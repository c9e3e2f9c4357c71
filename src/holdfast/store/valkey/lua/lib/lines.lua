-- The first jobs of a queue among the tasks that are known: the heads of their lines, merged by
-- priority and then arrival. Lines of other tasks are never read.
local function read_on(head)
    local first = head.read
    head.read = first + head.size
    head.chunk = redis.call('ZRANGE', head.key, first, head.read - 1, 'WITHSCORES')
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
    local size = #tasks == 1 and limit or math.min(limit, 16)
    for n = 1, #tasks do
        local key = partition .. ':ready:' .. line(queue, tasks[n])
        local head = {key = key, read = 0, size = size}
        if read_on(head) then
            heads[#heads + 1] = head
        end
    end
    return heads
end

-- Returns member, priority, member, priority, … of at most `limit` jobs.
local function pick(queue, tasks, limit)
    local heads, picked = heads_of(queue, tasks, limit), {}
    while #heads > 0 and #picked < 2 * limit do
        local best = 1
        for n = 2, #heads do
            if goes_before(heads[n], heads[best]) then
                best = n
            end
        end
        local head = heads[best]
        picked[#picked + 1] = head.chunk[head.at]
        picked[#picked + 1] = head.chunk[head.at + 1]
        head.at = head.at + 2
        if head.at > #head.chunk and not read_on(head) then
            table.remove(heads, best)
        end
    end
    return picked
end
