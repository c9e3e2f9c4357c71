-- A message about a few jobs goes to a channel of its own, to which dozing workers do not listen.
local function tell_of_ready(channel, queue, jobs)
    local where = jobs <= FEW_JOBS and channel .. '_few' or channel
    redis.call('PUBLISH', where, 'ready:' .. queue .. '=' .. jobs)
end
