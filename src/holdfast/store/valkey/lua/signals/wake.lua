-- Make jobs ready that are suspended for a signal which is kept.
-- KEYS: partition
-- ARGV: now arrival chosen
-- uses: unrefused time arrival record counts changes names places queues moves signals
--
-- `chosen`: [id, index]. Answers those jobs that were suspended for one.
local kept_otherwise = 0
local answer = {}

local function awaited_and_kept(id)
    for _, one in ipairs(signals_of(id)) do
        local row = one[2]
        if not row[SIGNAL_TAKEN_BY] and is_awaited(id, row[SIGNAL_NAME]) then
            return row[SIGNAL_NAME]
        end
    end
end

for _, one in ipairs(cmsgpack.unpack(chosen)) do
    local id = one[1]
    load({id})
    local record = records[id]
    local name = record and record[STATE] == 'suspended' and awaited_and_kept(id)
    if name then
        wake_for(id, record, name, arrive(one[2]))
        answer[#answer + 1] = id
    end
end
flush()
return answer
