-- What is about a few jobs is said where workers that doze do not listen.
local function tell_of_ready(channel, queue, jobs)
    local where = jobs <= FEW_JOBS and channel .. '_few' or channel
    redis.call('PUBLISH', where, 'ready:' .. queue .. '=' .. jobs)
end
