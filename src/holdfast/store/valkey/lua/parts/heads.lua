-- The set `heads:<queue>` has an entry for each line of the queue that is not empty: the score is
-- the priority of the line's first job, the member that job's arrival number and the task. So the
-- entries are ordered as a claim serves the lines, and a claim reads hardly a line that it does not
-- serve.
--
-- An entry may name an earlier job than the first one, never a later job: while a line is alone in
-- its queue, its entry is not updated, because there is nothing to compare it with.

-- Member and priority of a line's first job; an empty list where there is none.
local function first_of(key)
    return redis.call('ZRANGE', key, 0, 0, 'WITHSCORES')
end

local function head_name(member, task)
    return string.sub(member, 1, SEQ_LENGTH) .. task
end

-- Remove the entry of a line that began with this member, or with an earlier one.
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

-- Correct the entry of a line whose first job, or its priority, may have changed.
local function update_head(queue, task, before, first)
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
