-- Operations newest first.
-- KEYS: partition
-- ARGV: chosen states limit before
-- uses: operations
--
-- `chosen` and `states`: ids and states, empty for any. Answers id, row, id, row, …
local wanted, asked = {}, cmsgpack.unpack(states)
for _, state in ipairs(asked) do
    wanted[state] = true
end

-- The ids that may be meant, of which most are. Who works on operations asks again and again which
-- are to run, so these have a set of their own.
local function candidates()
    local ids = cmsgpack.unpack(chosen)
    if #ids > 0 then
        return ids
    elseif #asked == 1 and wanted.running then
        return redis.call('SMEMBERS', partition .. ':operations-running')
    end
    return redis.call('ZRANGE', partition .. ':operations-time', 0, -1)
end

local function is_newer(one, other)
    if one.at ~= other.at then
        return one.at > other.at
    end
    return one.id > other.id
end

local function found(id)
    local row = operation_row(id)
    return row and {id = id, at = row[OPERATION_BEGUN_AT], row = row}
end

local last = before ~= '' and found(before)
local rows, answer = {}, {}
if before == '' or last then
    for _, id in ipairs(candidates()) do
        local one = found(id)
        local is_meant = one and (#asked == 0 or wanted[one.row[OPERATION_STATE]])
        if is_meant and not (last and not is_newer(last, one)) then
            rows[#rows + 1] = one
        end
    end
end
table.sort(rows, is_newer)
for n = 1, math.min(#rows, tonumber(limit)) do
    answer[#answer + 1] = rows[n].id
    answer[#answer + 1] = cmsgpack.pack(rows[n].row)
end
return answer
