-- Check some members of a list of jobs: the record of the job must name this list. Answers the jobs whose record
-- names another place, those without a record, and how many members do not belong there. The members were read by
-- an earlier call. Meanwhile jobs move on, end and are removed, so a member that is in the list no more is passed over.
-- KEYS: partition
-- ARGV: now name chosen repair
-- uses: time record counts changes names places listed
--
-- `name`: the list, without its partition. `chosen`: members. `repair` is '1' to remove them. A job without a record
-- is put aside then, where doctor shows it. Members of `heads`, `open` and `parked` are lines and no jobs.
local kind, of = string.match(name, '^([^:]*):?(.*)$')
local lists_lines = kind == 'heads' or kind == 'open' or kind == 'parked'
local batch, ids, surplus, misplaced, unread = {}, {}, {}, {}, {}

local function id_of(member)
    if kind == 'ready' or kind == 'limited' then
        return string.sub(member, SEQ_LENGTH + 1, ENTRY_LENGTH)
    end
    return string.sub(member, 1, ENTRY_LENGTH - SEQ_LENGTH) -- of `waits` the name of a signal follows
end

-- A line that has a job, and is open or parked as the place that is kept for it says.
local function is_line(member)
    if kind == 'heads' then
        local plain = line(of, string.sub(member, SEQ_LENGTH + 1))
        return redis.call('EXISTS', partition .. ':ready:' .. plain) == 1
    end
    local of_line = string.sub(member, TURN_LENGTH + 1)
    local place = redis.call('HGET', partition .. ':lines', of_line)
    if not place or redis.call('EXISTS', partition .. ':limited:' .. of_line) == 0 then
        return false
    end
    local turn, _, bucket = permits.place(place)
    local set = bucket and partition .. ':parked:' .. bucket or permits.open_set(permits.group_of(of_line))
    return turn == string.sub(member, 1, TURN_LENGTH) and set == partition .. ':' .. name
end

local function belongs(member, id)
    if lists_lines then
        return is_line(member)
    elseif kind == 'expiry' and is_aside(id) then
        return true
    elseif not records[id] then
        return false
    end
    local lists = lists_of(id, records[id])
    return not lists or (lists[name] and lists[name][member])
end

local function remove_surplus()
    for _, member in ipairs(surplus) do
        put(name, member, false)
    end
    if kind == 'held' then
        workers_touched[of] = true
    elseif kind == 'limited' then
        permits.join(of, false)
    elseif kind == 'parked' then
        permits.regroup(of)
    end
    flush()
    if kind == 'open' then
        permits.forget_empty_group(string.match(of, '^([^\n]*)\n(.*)$'))
    end
    if kind == 'ready' then
        local length, rest = string.match(of, '^(%d+):(.*)$')
        restore_head(string.sub(rest, 1, length), string.sub(rest, length + 2))
    end
    for _, id in ipairs(unread) do
        if not is_aside(id) then
            put_aside(id)
        end
    end
end

for _, member in ipairs(cmsgpack.unpack(chosen)) do
    if redis.call('ZSCORE', partition .. ':' .. name, member) then
        batch[#batch + 1] = member
        ids[#ids + 1] = lists_lines and member or id_of(member)
    end
end
if not lists_lines then
    load(ids)
end
for n, member in ipairs(batch) do
    if not belongs(member, ids[n]) then
        surplus[#surplus + 1] = member
        local is_unread = not lists_lines and not records[ids[n]]
        table.insert(is_unread and unread or misplaced, ids[n])
    end
end
if repair ~= '' and #surplus > 0 then
    remove_surplus()
end
return {misplaced, unread, #surplus}
