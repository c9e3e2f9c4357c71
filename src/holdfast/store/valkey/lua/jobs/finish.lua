-- Apply guarded moves, as if one after the other. What is refused changes nothing.
-- KEYS: partition
-- ARGV: now arrival kept_otherwise reclaiming by alive_since moves
-- uses: unrefused time arrival record counts changes names places queues moves failed release steps signals mark
--
-- `moves`: a MoveRow each. `reclaiming` is '1' when only jobs of lapsed workers may be moved, and
-- `by` then names the worker that judged so ('' for any), which was alive since `alive_since`.
-- Answers the refused (place in the batch, state, fence, …) and the queues that cool down (name,
-- row, …). If one of the jobs was not found, the mark of the store comes with it.
local lapsed = {}
local function is_lapsed(worker)
    if lapsed[worker] == nil then
        local lease = redis.call('ZSCORE', partition .. ':leases', worker)
        lapsed[worker] = not lease or tonumber(lease) <= moment
    end
    return lapsed[worker]
end

-- Whether the reclaiming worker has served without a break since it judged. Only the partition that
-- keeps the workers' rows knows since when it is alive; the caller has asked there before the
-- others.
local function stands()
    local row = redis.call('HGET', partition .. ':workers', by)
    local since = row and cmsgpack.unpack(row)[WORKER_ALIVE_SINCE]
    return not is_lapsed(by) and (not row or since == tonumber(alive_since))
end
local may_reclaim = reclaiming == '1' and (by == '' or stands())

-- The guard of a move.
local function applies(move, record)
    if not record or record[STATE] ~= move[MOVE_SOURCE] or record[FENCE] ~= move[MOVE_FENCE] then
        return false
    end
    if reclaiming == '1' then
        return may_reclaim and record[STATE] == 'running' and is_lapsed(record[WORKER])
    end
    return LIVE[record[STATE]]
end

-- The steps of a move, in the order of `apply`.

local function spend(move, record)
    record[ATTEMPTS] = record[ATTEMPTS] + move[MOVE_SPEND]
    record[CRASHES] = record[CRASHES] + move[MOVE_CRASH]
    record[FENCE] = record[FENCE] + move[MOVE_BUMP]
end

-- A job whose cancel was asked for meanwhile does not go on. A released job arrives now; any other
-- job that becomes ready goes back to its old position.
local function go(move, record)
    local id, to, delay, reason = move[MOVE_ID], move[MOVE_TO], move[MOVE_DELAY], move[MOVE_REASON]
    local what = move[MOVE_WHAT]
    local ends = ENDED[to] or record[CANCEL_AT]
    record[FINGERPRINT] = ends and move[MOVE_FINGERPRINT] or false
    if not ends then
        record[TIES] = bit.bor(record[TIES], move[MOVE_GAINED])
    end
    if ENDED[to] then
        make_ended(id, record, to, move[MOVE_KEEP_FOR], reason, move[MOVE_RESULT])
    elseif record[CANCEL_AT] then
        make_ended(id, record, 'cancelled', kept_by_policy(id), 'cancelled on request')
    elseif to == 'ready' then
        make_ready(id, record, what, UNTIMED[record[STATE]] and arrive(move[MOVE_INDEX]))
    elseif to == 'scheduled' then
        make_wait(id, record, what, to, move[MOVE_RUN_AT] or after(delay or 0), reason)
    elseif to == 'suspended' then
        make_wait(id, record, what, to, delay and after(delay), reason)
    elseif UNTIMED[to] then
        make_wait(id, record, what, to, false, reason)
    else
        error('no move takes a job to ' .. tostring(to))
    end
end

-- A success is told by its outcome. `row` is what was seen of the job before the move.
local function tell_of(move, record, row)
    local state, what, message = record[STATE], move[MOVE_WHAT], move[MOVE_MESSAGE]
    if state == 'succeeded' then
        return
    end
    if state ~= move[MOVE_TO] then
        what, message = state, record[REASON]
    end
    local due_at = WAITING[state] and state ~= 'ready' and record[AT]
    tell(move[MOVE_ID], row, what, move[MOVE_BY], message, due_at, move[MOVE_ERROR])
end

local cooled = {}
local function cool(move, record)
    if move[MOVE_COOL] then
        cooled[record[QUEUE]] = throttle(record[QUEUE], move[MOVE_COOL])
    end
end

-- Where the limit is not defined, the queue cools down.
local drained = {}
local function drain(move, record)
    if not move[MOVE_DRAINS] then
        return
    end
    local bucket, wait = permits.bucket_of(record, move[MOVE_DRAINS]), move[MOVE_DELAY] or 0
    if permits.rule(bucket) then
        drained[bucket] = math.max(drained[bucket] or 0, wait)
    else
        cooled[record[QUEUE]] = throttle(record[QUEUE], wait)
    end
end

-- A job whose signal has come is not suspended.
local function has_awaited(move)
    for _, given in ipairs(move[MOVE_STEPS]) do
        if given[NEW_STEP_AWAITS] and is_kept(move[MOVE_ID], given[NEW_STEP_AWAITS]) then
            return true
        end
    end
    return false
end

local function wait_for_signals(move)
    for _, given in ipairs(move[MOVE_STEPS]) do
        if given[NEW_STEP_AWAITS] then
            wait_for(move[MOVE_ID], given[NEW_STEP_AWAITS])
        end
    end
end

-- A job with ties has more to settle. `make_ended` notes the nodes of flows that end here; what their
-- ends release is written with the moves themselves.
local function apply(move, record)
    for _, given in ipairs(move[MOVE_STEPS]) do
        record_step(move[MOVE_ID], record, given)
    end
    if move[MOVE_TO] == 'suspended' and has_awaited(move) then
        move[MOVE_TO], move[MOVE_WHAT], move[MOVE_MESSAGE] = 'ready', 'resumed', SIGNAL_IS_THERE
    end
    local row = move[MOVE_TO] ~= 'succeeded' and seen(record)
    if record[BUCKETS] or record[TOTAL] then
        permits.ends(move[MOVE_SETTLES], move[MOVE_SPENT])
    end
    spend(move, record)
    go(move, record)
    if record[STATE] == 'suspended' then
        wait_for_signals(move)
    end
    tell_of(move, record, row)
    note_failure(move[MOVE_FINGERPRINT], record[TASK], move[MOVE_ID], move[MOVE_ERROR])
    cool(move, record)
    drain(move, record)
end

local batch, ids, refused = cmsgpack.unpack(moves), {}, {}
for n = 1, #batch do
    ids[n] = batch[n][MOVE_ID]
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
release_ended()
flush()
for bucket, hint in pairs(drained) do
    local row = permits.change(bucket)
    row[BUCKET_SHUT_UNTIL], row[BUCKET_THROTTLES] =
        cool_window(row[BUCKET_SHUT_UNTIL], row[BUCKET_THROTTLES], hint, FRESH_SETTINGS)
end
if next(drained) then
    permits.save()
end
write_failures()

local answer, cooling, all_found = {}, {}, true
for _, n in ipairs(refused) do
    local record = records[ids[n]]
    all_found = all_found and record ~= nil
    answer[#answer + 1] = n
    answer[#answer + 1] = record and record[STATE] or false
    answer[#answer + 1] = record and record[FENCE] or false
end
for name, row in pairs(cooled) do
    keep_queue(name, row)
    cooling[#cooling + 1] = name
    cooling[#cooling + 1] = cmsgpack.pack(row)
end
return {answer, cooling, not all_found and mark_of_store()}
