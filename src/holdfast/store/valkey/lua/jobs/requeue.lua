-- Make ended jobs ready again, as new but for their history and fence.
-- KEYS: partition
-- ARGV: now arrival by chosen
-- uses: time arrival record counts changes names places queues moves revival undone ledger started keys
--
-- `chosen`: [id, index]. A job whose unique key another job holds by now stays as it is, and so does
-- a node: only its flow is reopened. Answers the requeued jobs.
local kept_otherwise = 0

local function may_take_key(id, record)
    local holder = taken[record[KEY]] or redis.call('HGET', partition .. ':unique', record[KEY])
    if not holder or holder == id then
        return true
    end
    load({holder})
    local other = records[holder]
    return not (other and holds_key(holder, other))
end

local function may_revive(id, record)
    local is_node = bit.band(record[TIES], TIE_NODE) ~= 0
    if is_node or is_undone(id, record) then
        return false
    end
    return ENDED[record[STATE]] and (not record[KEY] or may_take_key(id, record))
end

local answer = {}
for _, one in ipairs(cmsgpack.unpack(chosen)) do
    local id = one[1]
    load({id})
    local record = records[id]
    if record and may_revive(id, record) then
        if record[KEY] then
            taken[record[KEY]] = id
        end
        tell(id, seen(record), 'requeued', by)
        revive(id, record, 'ready', arrive(one[2]))
        start_again(id, record)
        answer[#answer + 1] = id
    end
end
flush()
return answer
