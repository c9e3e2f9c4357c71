-- A job whose record or body is gone or cannot be read is put aside: out of the sets that would bring
-- it up again and again, into one where doctor looks. Retention removes what is left of it.
local KEPT_ASIDE = 30 * 86400

local function put_aside(id)
    for _, name in ipairs({'live', 'blocked', 'due', 'timeouts', 'deadlines'}) do
        redis.call('ZREM', partition .. ':' .. name, id)
    end
    redis.call('ZADD', partition .. ':aside', moment, id)
    redis.call('ZADD', partition .. ':expiry', after(KEPT_ASIDE), id)
end
