-- Those of these documents that are there.
-- KEYS: partition
-- ARGV: now kind chosen
-- uses: time shelf
--
-- Answers key, row, key, row, …
local answer = {}
for _, key in ipairs(cmsgpack.unpack(chosen)) do
    local row = document_row(kind, key)
    if is_there(row) then
        answer[#answer + 1] = key
        answer[#answer + 1] = cmsgpack.pack(row)
    end
end
return answer
