-- The workers that hold jobs here without a trusted lease.
-- KEYS: partition
-- ARGV: now
-- uses: time
local answer = {}
for _, worker in ipairs(redis.call('SMEMBERS', partition .. ':holders')) do
    local lease = redis.call('ZSCORE', partition .. ':leases', worker)
    if not lease or tonumber(lease) <= moment then
        answer[#answer + 1] = worker
    end
end
return answer
