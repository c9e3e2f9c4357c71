-- Putting a job aside whose record or body is gone or cannot be read: it leaves the sets in which
-- claims and sweeps would meet it again and again, and enters a set that doctor reads. Retention
-- removes what is left of it.
local ASIDE_SECONDS = 30 * 86400

local function put_aside(id)
    for _, name in ipairs({'live', 'due', 'timeouts', 'deadlines'}) do
        redis.call('ZREM', partition .. ':' .. name, id)
    end
    for state in pairs(UNTIMED) do
        redis.call('ZREM', partition .. ':untimed:' .. state, id)
    end
    redis.call('ZADD', partition .. ':aside', moment, id)
    redis.call('ZADD', partition .. ':expiry', after(ASIDE_SECONDS), id)
end
