-- Of ready jobs with limits that are not the first of their lines: the job, and the one that is first, …
-- KEYS: partition
-- ARGV: now chosen
-- uses: record limited
local answer, asked = {}, cmsgpack.unpack(chosen)
load(asked)
for _, id in ipairs(asked) do
    local record = records[id]
    if record and record[STATE] == 'ready' and record[BUCKETS] then
        local first = redis.call('ZRANGE', partition .. ':limited:' .. permits.line_of(record), 0, 0)[1]
        local other = first and string.match(first, '^[^ ]+', SEQ_LENGTH + 1)
        if other and other ~= id then
            answer[#answer + 1], answer[#answer + 2] = id, other
        end
    end
end
return answer
