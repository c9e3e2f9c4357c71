-- Times are whole microseconds since 1970. `moment` is the time by which the verb decides. Arrival
-- numbers always come from the server's clock, so that they grow while a test holds `moment` still.
local clock = redis.call('TIME')
local server_time = clock[1] * 1000000 + clock[2]
local moment = now == '' and server_time or tonumber(now)

-- The time so many seconds from now, at most the end of the calendar.
local function after(seconds)
    local at = moment + math.floor(seconds * 1000000 + 0.5)
    return at < LATEST and at or LATEST
end
