-- Replace the arguments, the tags or both of waiting jobs.
-- KEYS: partition
-- ARGV: args tags chosen
-- uses: unrefused record
--
-- `args`: JSON, `tags`: a packed list; '' leaves them as they are. `chosen`: ids. Answers the
-- changed jobs.
--
-- A value that is absent is nil here, and a list with a hole cannot be packed as it was. So each
-- value of the body is packed for itself.
local LIST_OF_FEW = 144 -- how MessagePack marks a list of up to 15 values, plus their number
local ids, answer = cmsgpack.unpack(chosen), {}
load(ids)
for _, id in ipairs(ids) do
    local record, key = records[id], partition .. ':b:' .. id
    local text = record and WAITING[record[STATE]] and redis.call('GET', key)
    if text then
        local body, packed_values = cmsgpack.unpack(text), {string.char(LIST_OF_FEW + BODY_WIDTH)}
        for n = 1, BODY_WIDTH do
            packed_values[n + 1] = cmsgpack.pack(body[n])
        end
        if args ~= '' then
            packed_values[BODY_ARGS + 1] = cmsgpack.pack(args)
        end
        if tags ~= '' then
            packed_values[BODY_TAGS + 1] = tags
        end
        redis.call('SET', key, table.concat(packed_values))
        answer[#answer + 1] = id
    end
end
return answer
