-- Take the alarms of some buckets, so that nobody else tells them: for each its rule and its row as they were, packed.
-- KEYS: partition
-- ARGV: now limit
-- uses: time buckets
local answer = {}
for _, bucket in ipairs(redis.call('ZRANGE', partition .. ':alarmed', 0, tonumber(limit) - 1)) do
    local rule, row = permits.rule(bucket), permits.row(bucket)
    local due = bit.band(row[BUCKET_ALARMS], ALARM_SOFT + ALARM_OVERRUN)
    redis.call('ZREM', partition .. ':alarmed', bucket)
    if due ~= 0 then
        answer[#answer + 1] = bucket
        answer[#answer + 1] = rule and cmsgpack.pack(rule) or false
        answer[#answer + 1] = cmsgpack.pack(row)
        permits.change(bucket)[BUCKET_ALARMS] = row[BUCKET_ALARMS] - due + due * ALARM_SOFT_TOLD
    end
end
permits.save()
return answer
