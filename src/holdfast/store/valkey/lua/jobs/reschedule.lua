-- Make scheduled or ready jobs due after a while; at once means ready now.
-- KEYS: partition
-- ARGV: now arrival delay chosen
-- uses: time arrival record counts changes names places queues moves
--
-- `chosen`: [id, index]. Answers those jobs that were scheduled or ready.
local kept_otherwise = 0
local at, answer = after(tonumber(delay)), {}
for _, one in ipairs(cmsgpack.unpack(chosen)) do
    local id = one[1]
    load({id})
    local record = records[id]
    if record and (record[STATE] == 'scheduled' or record[STATE] == 'ready') then
        make_due(id, record, at, arrive(one[2]))
        answer[#answer + 1] = id
    end
end
flush()
return answer
