-- Forget failures that were not seen for long, and the oldest beyond a number.
-- KEYS: partition
-- ARGV: now limit kept_for most
-- uses: time
--
-- A failure that is muted or has dead jobs goes last. Answers how many were forgotten.
local seen = partition .. ':failures_seen'
local too_many = redis.call('ZCARD', seen) - tonumber(most)
local old = moment - tonumber(kept_for) * 1000000

local function matters(fingerprint)
    local row = cmsgpack.unpack(redis.call('HGET', partition .. ':failures', fingerprint))
    local muted = row[FAILURE_MUTED_UNTIL] and row[FAILURE_MUTED_UNTIL] > moment
    return muted or redis.call('EXISTS', partition .. ':dead:' .. fingerprint) == 1
end

-- Oldest first: those that nobody needs, and behind them the others.
local till = too_many > 0 and '+inf' or string.format('%.0f', old)
local needed, gone = {}, {}
local scored = redis.call('ZRANGEBYSCORE', seen, '-inf', till, 'WITHSCORES')
for n = 1, #scored, 2 do
    if #gone >= tonumber(limit) or (#gone >= too_many and tonumber(scored[n + 1]) > old) then
        break
    end
    if matters(scored[n]) then
        needed[#needed + 1] = scored[n]
    else
        gone[#gone + 1] = scored[n]
    end
end
for n = 1, math.min(#needed, too_many - #gone, tonumber(limit) - #gone) do
    gone[#gone + 1] = needed[n]
end

for _, fingerprint in ipairs(gone) do
    redis.call('ZREM', seen, fingerprint)
    redis.call('HDEL', partition .. ':failures', fingerprint)
    redis.call('HDEL', partition .. ':failure_samples', fingerprint)
end
return #gone
