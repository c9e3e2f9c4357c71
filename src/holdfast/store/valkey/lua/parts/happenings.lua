-- What happened to jobs: collected by `tell`, written by `write_happenings`, which `flush` calls.
--
-- Errors have a list of their own, so that many snoozes push out none of them. A number that grows
-- within the partition says in which order the entries of both lists happened.
local happened = {}

-- What a happening says of the job as it is now, before it is moved or changed.
local function seen(record)
    local running, row = record[STATE] == 'running', {}
    row[HAPPENING_ATTEMPT] = record[ATTEMPTS] + (running and 1 or 0)
    row[HAPPENING_FENCE] = record[FENCE]
    row[HAPPENING_WORKER] = running and record[WORKER] or false
    row[HAPPENING_CLAIMED_AT] = running and record[CLAIMED_AT] or false
    return row
end

-- `row` is what `seen` gave. `failure` is a packed ErrorRow, which has a message of its own, or nothing.
local function tell(id, row, what, who, message, due_at, failure)
    row[HAPPENING_AT], row[HAPPENING_WHAT], row[HAPPENING_DUE_AT] = moment, what, due_at or false
    row[HAPPENING_BY] = who and who ~= '' and who or false
    row[HAPPENING_MESSAGE] = not failure and message or false
    happened[#happened + 1] = {id, row, failure}
end

local function append(id, row, failure)
    local text = cmsgpack.pack(row)
    if failure then
        local key = partition .. ':e:' .. id
        redis.call('RPUSH', key, text .. failure)
        redis.call('LTRIM', key, -ERRORS_KEPT, -1)
        return
    end
    local key = partition .. ':h:' .. id
    if redis.call('RPUSH', key, text) > FIRST_KEPT + NEWEST_KEPT then
        redis.call('LSET', key, FIRST_KEPT, '')
        redis.call('LREM', key, 1, '')
    end
end

local function write_happenings()
    if #happened == 0 then
        return
    end
    local last = redis.call('INCRBY', partition .. ':happenings', #happened)
    for n, one in ipairs(happened) do
        one[2][HAPPENING_N] = last - #happened + n
        append(unpack(one, 1, 3))
    end
    happened = {}
end
