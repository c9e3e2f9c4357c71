-- Mute failures until a time.
-- KEYS: partition
-- ARGV: chosen till
-- uses: unrefused
--
-- `chosen`: fingerprints. `till`: '' for no mute. Answers those that this partition has.
local answer = {}
for _, fingerprint in ipairs(cmsgpack.unpack(chosen)) do
    local found = redis.call('HGET', partition .. ':failures', fingerprint)
    if found then
        local row = cmsgpack.unpack(found)
        row[FAILURE_MUTED_UNTIL] = till ~= '' and tonumber(till)
        redis.call('HSET', partition .. ':failures', fingerprint, cmsgpack.pack(row))
        answer[#answer + 1] = fingerprint
    end
end
return answer
