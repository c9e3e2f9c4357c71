-- Every queue knows where each of its lines that is not empty begins. `heads:<queue>` is ordered as a
-- claim serves the lines: the score is the priority of the first job, the member its arrival number
-- and the task. So a claim opens the lines it serves and hardly another, however many there are.
--
-- An entry may be older than the first job, never newer: a line that is alone in its queue moves on
-- without being told about, since there is nothing to compare it with.

-- Member and priority of a line's first job; an empty list where there is none.
local function first_of(key)
    return redis.call('ZRANGE', key, 0, 0, 'WITHSCORES')
end

local function head_name(member, task)
    return string.sub(member, 1, SEQ_LENGTH) .. task
end

-- Remove the entry of a line that began with this member, or with one that is older.
local function drop_head(key, member, task)
    if redis.call('ZREM', key, head_name(member, task)) == 1 then
        return
    end
    for _, entry in ipairs(redis.call('ZRANGE', key, 0, -1)) do
        if string.sub(entry, SEQ_LENGTH + 1) == task then
            redis.call('ZREM', key, entry)
        end
    end
end

-- A line begins with another job than before, or with the same at another priority.
local function lead(queue, task, before, first)
    if before[1] == first[1] and before[2] == first[2] then
        return
    end
    local key = partition .. ':heads:' .. queue
    if before[1] then
        drop_head(key, before[1], task)
    end
    if first[1] then
        redis.call('ZADD', key, first[2], head_name(first[1], task))
    end
end
