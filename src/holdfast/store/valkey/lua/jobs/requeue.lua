-- Make ended jobs ready again, as new but for their history and fence.
-- KEYS: partition
-- ARGV: now arrival by chosen
-- uses: time arrival record counts changes names places queues moves ledger started keys
--
-- `chosen`: [id, index]. A job whose unique key another job holds by now stays as it is. Answers
-- the requeued jobs.
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

local function revive(id, record, seq)
    if record[KEY] then
        taken[record[KEY]] = id
    end
    tell(id, seen(record), 'requeued', by)
    leave(id, record)
    forget_attempt(record)
    record[ATTEMPTS], record[CRASHES] = 0, 0
    record[DEADLINE_AT], record[EXPIRES_AT], record[RESULT] = false, false, false
    record[FINGERPRINT] = false
    record[STATE], record[SEQ], record[READY_AT] = 'ready', seq, moment
    note('requeued', record)
    enlist(id, record, true)
    enter(id, record)
    start_again(id, record)
    wake('ready:' .. record[QUEUE])
end

local answer = {}
for _, one in ipairs(cmsgpack.unpack(chosen)) do
    local id = one[1]
    load({id})
    local record = records[id]
    if record and ENDED[record[STATE]] and (not record[KEY] or may_take_key(id, record)) then
        revive(id, record, arrive(one[2]))
        answer[#answer + 1] = id
    end
end
flush()
return answer
