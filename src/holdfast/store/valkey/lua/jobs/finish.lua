-- Apply guarded moves, as if one after the other. What is refused changes nothing.
-- KEYS: partition
-- ARGV: now kept_otherwise reclaiming by alive_since moves
-- uses: time record counts changes names places queues moves
--
-- `moves`: [id, fence, to, source, spend, crash, bump, delay, keep_for, result, reason, error,
-- cool]. `reclaiming` is '1' when only jobs of lapsed workers may be moved, and `by` then names the
-- worker that judged so, alive since that moment; '' is nobody in particular. Answers the refused
-- (place in the batch, state, fence, …) and the queues that cool down (name, row, …).
local ID, MOVE_FENCE, TO, SOURCE, SPEND, CRASH, BUMP, DELAY = 1, 2, 3, 4, 5, 6, 7, 8
local KEEP_FOR, MOVE_RESULT, MOVE_REASON, ERROR, COOL = 9, 10, 11, 12, 13
local ERRORS_KEPT = 32

local lapsed = {}
local function is_lapsed(worker)
    if lapsed[worker] == nil then
        local lease = redis.call('ZSCORE', partition .. ':leases', worker)
        lapsed[worker] = not lease or tonumber(lease) <= moment
    end
    return lapsed[worker]
end

-- Nothing has happened to the reclaiming worker since it judged. Only the partition that keeps the
-- workers' rows knows since when it is alive; the caller has asked there before the others.
local function stands()
    local row = redis.call('HGET', partition .. ':workers', by)
    local since = row and select(10, cmsgpack.unpack(row))
    return not is_lapsed(by) and (not row or since == tonumber(alive_since))
end
local may_reclaim = reclaiming == '1' and (by == '' or stands())

local function applies(move, record)
    if not record or record[STATE] ~= move[SOURCE] or record[FENCE] ~= move[MOVE_FENCE] then
        return false
    end
    if reclaiming == '1' then
        return may_reclaim and move[SOURCE] == 'running' and is_lapsed(record[WORKER])
    end
    return LIVE[record[STATE]]
end

-- A job whose cancel was asked for meanwhile does not go on; what was spent stays spent.
local function go(id, record, move)
    local to = move[TO]
    if not LIVE[to] then
        make_ended(id, record, to, move[KEEP_FOR], move[MOVE_REASON], move[MOVE_RESULT])
    elseif record[CANCEL_AT] then
        make_ended(id, record, 'cancelled', kept_by_policy(id), 'cancelled on request')
    elseif to == 'ready' then
        make_ready(id, record)
    elseif to == 'suspended' then
        make_wait(id, record, to, move[DELAY] and after(move[DELAY]), move[MOVE_REASON])
    else
        make_wait(id, record, to, after(move[DELAY] or 0), move[MOVE_REASON])
    end
end

local function note_error(id, told)
    local key = partition .. ':e:' .. id
    after_all[#after_all + 1] = {'RPUSH', key, cmsgpack.pack(moment) .. told}
    after_all[#after_all + 1] = {'LTRIM', key, -ERRORS_KEPT, -1}
end

local cooled = {}
local function apply(move, record)
    local id, queue = move[ID], record[QUEUE]
    record[ATTEMPTS] = record[ATTEMPTS] + move[SPEND]
    record[CRASHES] = record[CRASHES] + move[CRASH]
    record[FENCE] = record[FENCE] + move[BUMP]
    go(id, record, move)
    if move[ERROR] then
        note_error(id, move[ERROR])
    end
    if move[COOL] then
        cooled[queue] = throttle(queue, move[COOL])
    end
end

local batch, ids, refused = cmsgpack.unpack(moves), {}, {}
for n = 1, #batch do
    ids[n] = batch[n][ID]
end
load(ids)
for n = 1, #batch do
    local record = records[ids[n]]
    if applies(batch[n], record) then
        apply(batch[n], record)
    else
        refused[#refused + 1] = n
    end
end
flush()

local told, cooling = {}, {}
for _, n in ipairs(refused) do
    local record = records[ids[n]]
    told[#told + 1] = n
    told[#told + 1] = record and record[STATE] or false
    told[#told + 1] = record and record[FENCE] or false
end
for name, row in pairs(cooled) do
    keep_queue(name, row)
    cooling[#cooling + 1] = name
    cooling[#cooling + 1] = cmsgpack.pack(unpack(row, 1, 8))
end
return {told, cooling}
