-- Answer which workers hold jobs of this partition, each with their number.
-- KEYS: partition
local answer = {}
for _, worker in ipairs(redis.call('SMEMBERS', partition .. ':holders')) do
    answer[#answer + 1] = worker
    answer[#answer + 1] = redis.call('ZCARD', partition .. ':held:' .. worker)
end
return answer
