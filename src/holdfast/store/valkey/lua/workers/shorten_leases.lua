-- Let no lease of these workers end later than its limit: the clock was set back.
-- KEYS: partition
-- ARGV: limits
--
-- `limits`: [worker, moment].
for _, limit in ipairs(cmsgpack.unpack(limits)) do
    local lease = redis.call('ZSCORE', partition .. ':leases', limit[1])
    if lease and tonumber(lease) > limit[2] then
        redis.call('ZADD', partition .. ':leases', limit[2], limit[1])
    end
end
return 1
