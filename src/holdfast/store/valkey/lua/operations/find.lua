-- Operations newest first.
-- KEYS: partition
-- ARGV: chosen states limit before
-- uses: operations
--
-- `chosen` and `states`: ids and states, empty for any. Answers id, row, id, row, …
local wanted, ids, answer = {}, cmsgpack.unpack(chosen), {}
local any_state, some, any = true, {}, #ids == 0
for _, state in ipairs(cmsgpack.unpack(states)) do
    wanted[state], any_state = true, false
end
for _, id in ipairs(ids) do
    some[id] = true
end
local key, first = partition .. ':operations-time', 0
if before ~= '' then
    local rank = redis.call('ZREVRANK', key, before)
    if not rank then
        return answer
    end
    first = rank + 1
end
for _, id in ipairs(redis.call('ZREVRANGE', key, first, -1)) do
    if #answer >= 2 * limit then
        break
    end
    local row = (any or some[id]) and operation_row(id)
    if row and (any_state or wanted[row[OPERATION_STATE]]) then
        answer[#answer + 1] = id
        answer[#answer + 1] = cmsgpack.pack(row)
    end
end
return answer
