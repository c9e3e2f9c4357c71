-- Replace the arguments, the tags or both of waiting jobs.
-- KEYS: partition
-- ARGV: now args tags message by chosen
-- uses: unrefused time record edited happenings
--
-- `args`: JSON, `tags`: a packed list; '' leaves them as they are. `message` is for the
-- happening, and `by` its operator. `chosen`: ids. Answers the changed jobs. A job that has begun
-- gets no other arguments.
local ids, answer = cmsgpack.unpack(chosen), {}

local function may_be_edited(record)
    return record and WAITING[record[STATE]] and (args == '' or bit.band(record[TIES], TIE_BEGUN) == 0)
end

load(ids)
for _, id in ipairs(ids) do
    local record, key = records[id], partition .. ':b:' .. id
    local text = may_be_edited(record) and redis.call('GET', key)
    if text then
        local new = edited(text, args, tags)
        if new ~= text then
            redis.call('SET', key, new)
            tell(id, seen(record), 'edited', by, message)
        end
        answer[#answer + 1] = id
    end
end
write_happenings()
return answer
