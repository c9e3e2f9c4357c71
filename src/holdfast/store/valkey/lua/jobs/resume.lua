-- Make suspended jobs ready now.
-- KEYS: partition
-- ARGV: now arrival by chosen
-- uses: unrefused time arrival record counts changes names places queues moves steps
--
-- `chosen`: [id, index]. Answers those jobs that were suspended.
local kept_otherwise = 0
local answer = {}
for _, one in ipairs(cmsgpack.unpack(chosen)) do
    local id = one[1]
    load({id})
    local record = records[id]
    if record and record[STATE] == 'suspended' then
        tell(id, seen(record), 'resumed', by)
        end_waits(id, record)
        make_ready(id, record, 'resumed', arrive(one[2]))
        answer[#answer + 1] = id
    end
end
flush()
return answer
