-- The newest ids of some sets. All sets are read at one moment: if they were read one after the
-- other, a job that moves between them could be missed.
-- KEYS: partition
-- ARGV: below limit running names
--
-- `below`: where to begin, as ZREVRANGEBYLEX takes it. `running` is '1' if the sets of what workers
-- hold are read too. Answers at most `limit` ids of each set.
local sets, answer = cmsgpack.unpack(names), {}
if running == '1' then
    for _, worker in ipairs(redis.call('SMEMBERS', partition .. ':holders')) do
        sets[#sets + 1] = 'held:' .. worker
    end
end
for _, name in ipairs(sets) do
    local key = partition .. ':' .. name
    for _, id in ipairs(redis.call('ZREVRANGEBYLEX', key, below, '-', 'LIMIT', 0, limit)) do
        answer[#answer + 1] = id
    end
end
return answer
