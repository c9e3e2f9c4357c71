-- How many jobs each line has in each state; none has no field.
local function tally(field, by)
    if by ~= 0 and redis.call('HINCRBY', partition .. ':counts', field, by) == 0 then
        redis.call('HDEL', partition .. ':counts', field)
    end
end
