-- Make scheduled or ready jobs due at the time `run_at`, or after `delay` seconds; 0 means ready now.
-- KEYS: partition
-- ARGV: now arrival run_at delay by chosen
-- uses: time arrival record counts changes names places queues moves
--
-- `chosen`: [id, index]. Answers those jobs that were scheduled or ready.
local kept_otherwise = 0
local at, answer = run_at ~= '' and tonumber(run_at) or after(tonumber(delay)), {}
for _, one in ipairs(cmsgpack.unpack(chosen)) do
    local id = one[1]
    load({id})
    local record = records[id]
    if record and (record[STATE] == 'scheduled' or record[STATE] == 'ready') then
        make_due(id, record, at, arrive(one[2]), by)
        answer[#answer + 1] = id
    end
end
flush()
return answer
