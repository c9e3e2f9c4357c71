-- Say which of these queues have a total, and which workers share it.
-- KEYS: partition
-- ARGV: now queues
-- uses: time
--
-- Answers [queue, total] for each queue with a total, and [id, queues] for each worker that may
-- claim; none where no queue has a total.
local totals, workers, asked = {}, {}, cmsgpack.unpack(queues)
for n = 1, #asked do
    local found = redis.call('HGET', partition .. ':queues', asked[n])
    local total = found and cmsgpack.unpack(found)[QUEUE_SETTINGS].max_running
    if total then
        totals[#totals + 1] = {asked[n], total}
    end
end
if #totals > 0 then
    local since = '(' .. string.format('%.0f', moment)
    for _, id in ipairs(redis.call('ZRANGEBYSCORE', partition .. ':leases', since, '+inf')) do
        local found = redis.call('HGET', partition .. ':workers', id)
        local row = found and cmsgpack.unpack(found)
        if row and not row[WORKER_DRAIN_REQUESTED_AT] then
            workers[#workers + 1] = {id, row[WORKER_QUEUES]}
        end
    end
end
return {totals, workers}
