-- Counters of jobs by state, queue and task. A counter of zero has no field.
local function tally(field, by)
    if by ~= 0 and redis.call('HINCRBY', partition .. ':counts', field, by) == 0 then
        redis.call('HDEL', partition .. ':counts', field)
    end
end

-- Counts moves for the books, in the hash of the current minute. The field is the word for what moved
-- the jobs, and their line. The first move of a kind enters the minute in the list of those to fold.
local minute

local function note_moves(field, jobs)
    minute = minute or string.format('%.0f', math.floor(moment / 60000000))
    if redis.call('HINCRBY', partition .. ':moves:' .. minute, field, jobs) == jobs then
        redis.call('ZADD', partition .. ':unfolded', minute, minute)
    end
end
