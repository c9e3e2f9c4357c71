-- Replace the arguments, the tags or both of waiting jobs.
-- KEYS: partition
-- ARGV: args tags chosen
-- uses: unrefused record edited
--
-- `args`: JSON, `tags`: a packed list; '' leaves them as they are. `chosen`: ids. Answers the
-- changed jobs.
local ids, answer = cmsgpack.unpack(chosen), {}
load(ids)
for _, id in ipairs(ids) do
    local record, key = records[id], partition .. ':b:' .. id
    local text = record and WAITING[record[STATE]] and redis.call('GET', key)
    if text then
        redis.call('SET', key, edited(text, args, tags))
        answer[#answer + 1] = id
    end
end
return answer
