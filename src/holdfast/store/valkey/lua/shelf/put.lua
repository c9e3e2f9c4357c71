-- Write documents of one kind.
-- KEYS: partition
-- ARGV: now kind documents
-- uses: time shelf
--
-- `documents`: rows of key, value, the revision that must be there and seconds. Answers the new
-- revision of each, -1 where another one was there.
local answer = {}
for n, given in ipairs(cmsgpack.unpack(documents)) do
    local key, expected, ends = given[PUT_KEY], given[PUT_REVISION], given[PUT_EXPIRES_IN]
    local row = document_row(kind, key)
    local revision = is_there(row) and row[SHELF_REVISION] or 0
    if expected == false or expected == revision then
        local new = {}
        new[SHELF_VALUE], new[SHELF_REVISION] = given[PUT_VALUE], revision + 1
        new[SHELF_EXPIRES_AT] = ends and after(ends)
        keep_document(kind, key, new)
        answer[n] = revision + 1
    else
        answer[n] = -1
    end
end
return answer
