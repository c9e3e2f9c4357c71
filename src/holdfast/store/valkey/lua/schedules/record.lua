-- Write plans that have no row yet, each with its job and its cancels, and advance the cursors.
-- KEYS: partition
-- ARGV: now arrival kept_otherwise repeated plans
-- uses: time arrival record counts changes names places queues moves insertion release schedules ledger started
--
-- `plans`: a PlanRow each, no row of the ledger twice. `repeated` is '1' if the answer to the same
-- call was lost: then a row with the plan's own job was written by that call. Answers 1 or 0 for
-- each.
local TIDY_BATCH = 100 -- entries of former plans that are checked in a scope
local TIDY_BATCH_OF_ALL = 20000 -- and in all scopes of the call

local batch, books = cmsgpack.unpack(plans), {}

-- The changes of this call to one schedule; false if the schedule is gone.
local function book_of(schedule)
    if books[schedule] == nil then
        local row = schedule_row(schedule)
        books[schedule] = row and {
            till = after(row[SCHEDULE_KEEP]),
            names = {}, places = {}, rows = {}, cursors = {}, scopes = {}
        } or false
    end
    return books[schedule]
end

local function may_write(plan, row)
    if not row then
        return true
    end
    if plan[PLAN_OUT_OF_TURN] and plan[PLAN_DECISION] == 'fired' and not row[LEDGER_JOB] then
        return true
    end
    return OPEN[row[LEDGER_DECISION]] and row[LEDGER_DECISION] ~= plan[PLAN_DECISION]
end

-- Whether the live jobs of the scope are still those that the decision rests on. This is asked
-- before anything is written.
local function as_decided(plan)
    local ids, expected, found = {}, {}, 0
    for _, member in ipairs(started_in(plan[PLAN_SCHEDULE], plan[PLAN_SCOPE], -1)) do
        ids[#ids + 1] = job_of(member, plan[PLAN_SCOPE])
    end
    for _, id in ipairs(plan[PLAN_BESIDE]) do
        expected[id] = true
    end
    for id in pairs(living(ids)) do
        if not expected[id] then
            return false
        end
        found = found + 1
    end
    return found == #plan[PLAN_BESIDE]
end

local function is_ours(plan, row)
    return repeated == '1' and plan[PLAN_JOB] and row and row[LEDGER_JOB] == plan[PLAN_JOB][JOB_ID]
end

local function write(plan, name, book, row)
    local schedule, scope, at = plan[PLAN_SCHEDULE], plan[PLAN_SCOPE], plan[PLAN_AT]
    local job = plan[PLAN_JOB] and plan[PLAN_JOB][JOB_ID]
    local rows, new = book.rows, {}
    new[LEDGER_DECISION], new[LEDGER_REASON] = plan[PLAN_DECISION], plan[PLAN_REASON]
    new[LEDGER_RECORDED_AT], new[LEDGER_KEEP_UNTIL], new[LEDGER_JOB] = moment, book.till, job
    rows[#rows + 1] = name
    rows[#rows + 1] = cmsgpack.pack(new)
    if row or not OPEN[plan[PLAN_DECISION]] then
        put('ledger-expiry:' .. schedule, name, not OPEN[plan[PLAN_DECISION]] and book.till)
    end
    if not row then
        put('ledger-scope:' .. schedule, name, 0)
        put('ledger-time:' .. schedule, inverted(at) .. scope, 0)
    end
    if OPEN[plan[PLAN_DECISION]] or row then
        put('ledger-open:' .. schedule, at .. scope, OPEN[plan[PLAN_DECISION]] and 0 or false)
    end
    if not plan[PLAN_OUT_OF_TURN] and (book.cursors[scope] or '') < at then
        book.cursors[scope] = at
    end
    book.scopes[scope] = true
end

-- Remove the entries of former plans whose jobs have ended. Only the oldest entries are checked: a
-- long backlog of live jobs must not be walked at every plan.
local function tidy(scopes_written)
    local most = math.min(TIDY_BATCH, math.floor(TIDY_BATCH_OF_ALL / scopes_written))
    local members, owners, ids = {}, {}, {}
    for schedule, book in pairs(books) do
        for scope in pairs(book and book.scopes or {}) do
            for _, member in ipairs(started_in(schedule, scope, most)) do
                local n = #ids + 1
                members[n], owners[n], ids[n] = member, schedule, job_of(member, scope)
            end
        end
    end
    local live = living(ids)
    for n = 1, #ids do
        if not live[ids[n]] then
            put('started:' .. owners[n], members[n], false)
        end
    end
end

local function start(plan)
    local schedule, scope, at = plan[PLAN_SCHEDULE], plan[PLAN_SCOPE], plan[PLAN_AT]
    local id = plan[PLAN_JOB][JOB_ID]
    insert_once(plan[PLAN_JOB])
    load({id})
    if records[id] then
        records[id][PLAN] = {schedule, scope, at}
        changed[id] = true
    end
    put('started:' .. schedule, started_name(scope, at, id), 0)
end

-- A waiting job ends; a running job is asked to.
local function cancel(id, reason)
    local record = records[id]
    local state = record and record[STATE]
    if state == 'running' then
        ask_to_cancel(id, record, false, reason)
    elseif WAITING[state] then
        tell(id, seen(record), 'cancelled', false, reason)
        make_ended(id, record, 'cancelled', kept_by_policy(id), reason)
    end
end

-- Rows are written first: a server without memory refuses that, and so refuses the whole call.
local function write_rows()
    for schedule, book in pairs(books) do
        each('HSET', of_schedule('ledger', schedule), book and book.rows or {})
    end
end

local function advance(schedule, book)
    local scopes, ahead = {}, {}
    for scope in pairs(book.cursors) do
        scopes[#scopes + 1] = scope
    end
    local key = of_schedule('cursors', schedule)
    for first = 1, #scopes, ARGUMENT_BATCH do
        local last = math.min(first + ARGUMENT_BATCH - 1, #scopes)
        local stand = redis.call('HMGET', key, unpack(scopes, first, last))
        for n = first, last do
            local at = book.cursors[scopes[n]]
            if not stand[n - first + 1] or stand[n - first + 1] < at then
                ahead[#ahead + 1] = scopes[n]
                ahead[#ahead + 1] = at
            end
        end
    end
    each('HSET', key, ahead)
end

local function find_rows()
    local found = {}
    for n = 1, #batch do
        local plan = batch[n]
        local book = book_of(plan[PLAN_SCHEDULE])
        if book then
            book.names[#book.names + 1] = row_name(plan[PLAN_SCOPE], plan[PLAN_AT])
            book.places[#book.places + 1] = n
        end
    end
    for schedule, book in pairs(books) do
        local rows = book and packed_rows(schedule, book.names) or {}
        for n = 1, #rows do
            found[book.places[n]] = {book.names[n], rows[n] and cmsgpack.unpack(rows[n])}
        end
    end
    return found
end

local found, answer, written, scopes_written = find_rows(), {}, {}, 0
for n = 1, #batch do
    local plan, book = batch[n], books[batch[n][PLAN_SCHEDULE]]
    local name, row = unpack(found[n] or {})
    local writes = book and may_write(plan, row) and (not plan[PLAN_BESIDE] or as_decided(plan))
    if writes then
        scopes_written = scopes_written + (book.scopes[plan[PLAN_SCOPE]] and 0 or 1)
        write(plan, name, book, row)
        written[#written + 1] = plan
    end
    answer[n] = (writes or (book and is_ours(plan, row))) and 1 or 0
end
if #written == 0 then
    return answer
end

tidy(scopes_written)
local reasons, cancelled = {}, {}
for _, plan in ipairs(written) do
    if plan[PLAN_JOB] then
        start(plan)
    end
    for _, id in ipairs(plan[PLAN_CANCEL]) do
        if not reasons[id] then
            reasons[id] = plan[PLAN_REPLACED]
            cancelled[#cancelled + 1] = id
        end
    end
end
load(cancelled)
for _, id in ipairs(cancelled) do
    cancel(id, reasons[id])
end
release_ended()

write_rows()
flush()
for schedule, book in pairs(books) do
    if book and #book.rows > 0 then
        advance(schedule, book)
        redis.call('ZADD', partition .. ':ledgers', 'LT', book.till, schedule)
    end
end
return answer
