-- The plans whose jobs may be live, by scope, oldest first, so that live jobs are found without
-- reading the ledger. The end of a job leaves its entry here; recording the next plan of the scope
-- removes it.
local function started_name(scope, at, id)
    return of_scope(scope) .. at .. id
end

local function started_in(schedule, scope, limit)
    local first = of_scope(scope)
    local key = of_schedule('started', schedule)
    return redis.call('ZRANGEBYLEX', key, '[' .. first, '[' .. first .. 'g', 'LIMIT', 0, limit)
end

local function job_of(member, scope)
    return string.sub(member, 8 + #scope + TIME_LENGTH + 1)
end

-- Enter a requeued job again, if the ledger still has the row of its plan.
local function start_again(id, record)
    if not record[PLAN] then
        return
    end
    local schedule, scope, at = unpack(record[PLAN])
    local row = redis.call('HGET', of_schedule('ledger', schedule), row_name(scope, at))
    if row and cmsgpack.unpack(row)[LEDGER_JOB] == id then
        put('started:' .. schedule, started_name(scope, at, id), 0)
    end
end
