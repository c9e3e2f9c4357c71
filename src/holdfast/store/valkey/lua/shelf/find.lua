-- Documents of one kind in the order of their keys.
-- KEYS: partition
-- ARGV: now kind limit behind
-- uses: time shelf
--
-- `behind`: a list of the key that they stand behind, or of none. Answers key, row, key, row, …
local keys, answer = partition .. ':shelf-keys:' .. kind, {}
local last = cmsgpack.unpack(behind)[1]
local from = last and '(' .. last or '-'
while #answer < 2 * limit do
    local some = redis.call('ZRANGEBYLEX', keys, from, '+', 'LIMIT', 0, limit)
    for _, key in ipairs(some) do
        local row = document_row(kind, key)
        if is_there(row) and #answer < 2 * limit then
            answer[#answer + 1] = key
            answer[#answer + 1] = cmsgpack.pack(row)
        end
        from = '(' .. key
    end
    if #some < tonumber(limit) then
        break
    end
end
return answer
