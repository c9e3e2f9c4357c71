-- The place of a job is the state in its record. Each place has sets that hold its jobs; the
-- functions here change those sets together with the record.
-- uses: names changes

-- What suspended jobs wait for: a member of the set `waits` for each signal, the job before its name.
local function wait_for(id, signal)
    put('waits', id .. ' ' .. signal, 0)
end

-- Forget them when the job leaves its place. A job that enters it again by the same script, in another
-- queue or with another priority, keeps them.
local function settle_waits(id, record, enters)
    if bit.band(record[TIES], TIE_STEPS) ~= 0 then
        for _, member in ipairs(redis.call('ZRANGEBYLEX', partition .. ':waits', '[' .. id .. ' ', '(' .. id .. '!')) do
            put('waits', member, enters and 0)
        end
    end
end

-- Enter the place that the record names, or leave it.
local function settle(id, record, enters)
    local state = record[STATE]
    local name = line(record[QUEUE], record[TASK])
    if state == 'ready' and record[BUCKETS] then
        local set, entry = permits.stand(id, record, enters)
        put(set, entry, enters and 0)
    elseif state == 'ready' then
        local set = behind('ready', name)
        put(set, record[SEQ] .. id, enters and record[PRIORITY])
        lines_touched[set] = lines_touched[set] or {record[QUEUE], record[TASK]}
    elseif state == 'running' then
        put(behind('held', record[WORKER]), id, enters and 0)
        workers_touched[record[WORKER]] = true
        if not enters and (record[BUCKETS] or record[TOTAL]) then
            permits.give_back(record)
        end
        if record[AT] then
            put('timeouts', id, enters and record[AT])
        end
    elseif state == 'scheduled' or state == 'suspended' then
        if record[AT] then
            put('due', id, enters and record[AT])
        end
        if state == 'suspended' then
            settle_waits(id, record, enters)
        end
    elseif UNTIMED[state] then
        put(behind('untimed', state), id, enters and 0)
    elseif ENDED[state] then
        put(behind('ended', state), id, enters and 0)
        if record[EXPIRES_AT] then
            put('expiry', id, enters and record[EXPIRES_AT])
        end
        if state == 'failed' and record[FINGERPRINT] then
            put(behind('dead', record[FINGERPRINT]), id, enters and 0)
        end
    else
        error('there is no place for a job that is ' .. tostring(state))
    end
    count(behind(state, name), enters and 1 or -1)
end

local function enter(id, record)
    settle(id, record, true)
    changed[id] = true
end

local function leave(id, record)
    settle(id, record, false)
end

-- Add a job to the list of live jobs and its deadline to that of deadlines, or remove both.
local function enlist(id, record, enters)
    put('live', id, enters and 0)
    if record[DEADLINE_AT] then
        put('deadlines', id, enters and record[DEADLINE_AT])
    end
end
