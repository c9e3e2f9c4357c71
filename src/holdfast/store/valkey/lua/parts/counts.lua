-- Counters of jobs by state, queue and task. A counter of zero has no field.
local function tally(field, by)
    if by ~= 0 and redis.call('HINCRBY', partition .. ':counts', field, by) == 0 then
        redis.call('HDEL', partition .. ':counts', field)
    end
end
