-- Times are whole microseconds since 1970. `moment` is what the verb believes; arrival numbers
-- always come from the server's own clock, so that they grow while a test holds the clock still.
local clock = redis.call('TIME')
local server_time = clock[1] * 1000000 + clock[2]
local moment = now == '' and server_time or tonumber(now)

-- The moment so many seconds from now; one beyond the calendar's end becomes its end.
local function after(seconds)
    local at = moment + math.floor(seconds * 1000000 + 0.5)
    return at < LATEST and at or LATEST
end
