-- Write a note on failures.
-- KEYS: partition
-- ARGV: chosen text
-- uses: unrefused
--
-- `chosen`: fingerprints. `text`: '' for no note. Answers those that this partition has.
local answer = {}
for _, fingerprint in ipairs(cmsgpack.unpack(chosen)) do
    local found = redis.call('HGET', partition .. ':failures', fingerprint)
    if found then
        local row = cmsgpack.unpack(found)
        row[FAILURE_NOTE] = text ~= '' and text
        redis.call('HSET', partition .. ':failures', fingerprint, cmsgpack.pack(row))
        answer[#answer + 1] = fingerprint
    end
end
return answer
