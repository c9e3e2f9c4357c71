-- Forget failures that were chosen to go. One that was seen since then stays.
-- KEYS: partition
-- ARGV: chosen
--
-- `chosen`: [fingerprint, when it was last seen].
for _, one in ipairs(cmsgpack.unpack(chosen)) do
    local fingerprint, last = one[1], one[2]
    local seen = redis.call('ZSCORE', partition .. ':failures_seen', fingerprint)
    if seen and tonumber(seen) <= last then
        redis.call('ZREM', partition .. ':failures_seen', fingerprint)
        redis.call('HDEL', partition .. ':failures', fingerprint)
        redis.call('HDEL', partition .. ':failure_samples', fingerprint)
    end
end
return 1
