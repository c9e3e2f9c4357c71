-- Tell workers to leave, and wake them as for a cancel: both are said by the answer to a beat.
-- KEYS: partition
-- ARGV: now chosen
-- uses: unrefused time
--
-- `chosen`: ids. Of several requests the time of the first is kept. Answers the workers told.
local answer, channel = {}, partition:gsub(':%d+}$', '}') .. ':wake'
for _, worker in ipairs(cmsgpack.unpack(chosen)) do
    local found = redis.call('HGET', partition .. ':workers', worker)
    if found then
        local row = cmsgpack.unpack(found)
        row[WORKER_DRAIN_REQUESTED_AT] = row[WORKER_DRAIN_REQUESTED_AT] or moment
        redis.call('HSET', partition .. ':workers', worker, cmsgpack.pack(row))
        redis.call('HINCRBY', partition .. ':wake_counters', 'cancel:' .. worker, 1)
        redis.call('PUBLISH', channel, 'cancel:' .. worker)
        answer[#answer + 1] = worker
    end
end
if #answer > 0 then
    redis.call('PUBLISH', channel, 'fleet:')
end
return answer
