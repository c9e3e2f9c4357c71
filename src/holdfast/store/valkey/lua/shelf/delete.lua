-- Remove documents.
-- KEYS: partition
-- ARGV: now kind chosen
-- uses: time shelf
--
-- Answers the keys of those that were there.
local gone = {}
for _, key in ipairs(cmsgpack.unpack(chosen)) do
    if is_there(document_row(kind, key)) then
        gone[#gone + 1] = key
    end
    remove_document(kind, key)
end
return gone
