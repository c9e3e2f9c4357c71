-- Replace the arguments, the tags or both of waiting jobs.
-- KEYS: partition
-- ARGV: now args tags message by chosen
-- uses: unrefused time record edited happenings
--
-- `args`: JSON, `tags`: a packed list; '' leaves them as they are. `message` is for the
-- happening, and `by` its operator. `chosen`: ids. Answers the changed jobs.
local ids, answer = cmsgpack.unpack(chosen), {}
load(ids)
for _, id in ipairs(ids) do
    local record, key = records[id], partition .. ':b:' .. id
    local text = record and WAITING[record[STATE]] and redis.call('GET', key)
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
