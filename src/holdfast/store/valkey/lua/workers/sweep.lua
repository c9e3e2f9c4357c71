-- Remove the given workers, but for those whose lease has not lapsed long ago and those that hold a
-- job in this partition. Answers the removed workers.
-- KEYS: partition
-- ARGV: now lapsed_for chosen
-- uses: unrefused time keep_counts
local before = moment - tonumber(lapsed_for) * 1000000
local answer = {}
for _, worker in ipairs(cmsgpack.unpack(chosen)) do
    local lease = redis.call('ZSCORE', partition .. ':leases', worker)
    local lapsed = not lease or tonumber(lease) < before
    if lapsed and redis.call('EXISTS', partition .. ':held:' .. worker) == 0 then
        keep_counts(worker, '')
        redis.call('ZREM', partition .. ':leases', worker)
        redis.call('HDEL', partition .. ':workers', worker)
        redis.call('HDEL', partition .. ':wake_counters', 'cancel:' .. worker)
        answer[#answer + 1] = worker
    end
end
return answer
