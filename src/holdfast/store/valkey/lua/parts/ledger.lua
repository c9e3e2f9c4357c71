-- The ledger of a schedule. Each schedule has its own keys, so that a delete unlinks them whole.
--
-- A plan time is 15 hexadecimal digits that sort as text. The name of a row is the length of its
-- scope, the scope, and the inverted time: so the rows of one scope stand together, newest first.
-- `ledger-time` holds inverted time and scope (newest first, then by scope), `ledger-open` holds
-- time and scope (oldest first).
local OPEN = {failed = true, waiting = true}
local TIME_LENGTH = 15
local LEDGER_KEYS = {
    'ledger', 'ledger-time', 'ledger-scope', 'ledger-expiry', 'ledger-open', 'started', 'cursors'
}
local complement = {}
for digit = 0, 15 do
    complement[string.format('%x', digit)] = string.format('%x', 15 - digit)
end

local function of_schedule(kind, schedule)
    return partition .. ':' .. kind .. ':' .. schedule
end

local function inverted(at)
    return (string.gsub(at, '.', complement))
end

local function of_scope(scope)
    return string.format('%08x', #scope) .. scope
end

local function row_name(scope, at)
    return of_scope(scope) .. inverted(at)
end

-- Scope and time from a row's name.
local function scope_and_time(name)
    return string.sub(name, 9, -TIME_LENGTH - 1), inverted(string.sub(name, -TIME_LENGTH))
end

-- Time (inverted or not) and scope from a member of ledger-time or ledger-open.
local function time_and_scope(member)
    return string.sub(member, 1, TIME_LENGTH), string.sub(member, TIME_LENGTH + 1)
end

-- The packed rows of these names; false for a row that is missing.
local function packed_rows(schedule, names)
    local key, rows = of_schedule('ledger', schedule), {}
    for first = 1, #names, 2000 do
        local found = redis.call('HMGET', key, unpack(names, first, math.min(first + 1999, #names)))
        for n = 1, #found do
            rows[first + n - 1] = found[n]
        end
    end
    return rows
end

-- An answer for readers: name, row, name, row, …
local function named_rows(schedule, names)
    local answer, rows = {}, packed_rows(schedule, names)
    for n = 1, #names do
        if rows[n] then
            answer[#answer + 1] = names[n]
            answer[#answer + 1] = rows[n]
        end
    end
    return answer
end

-- Which of these jobs are live, as a set.
local function living(ids)
    local found = {}
    for first = 1, #ids, 2000 do
        local last = math.min(first + 1999, #ids)
        local scores = redis.call('ZMSCORE', partition .. ':live', unpack(ids, first, last))
        for n = 1, #scores do
            if scores[n] then
                found[ids[first + n - 1]] = true
            end
        end
    end
    return found
end
