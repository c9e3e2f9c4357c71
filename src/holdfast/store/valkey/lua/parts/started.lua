-- Lazy: the plans whose jobs may still be live, by scope, oldest first. A job that ends leaves its
-- entry; whoever records the next plan of the scope removes it. So what is live is found without
-- the ledger's history.
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

-- A job that returns to life is looked for again, if its plan still has a row.
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
