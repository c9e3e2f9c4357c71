-- Move an operation that is still at this revision.
-- KEYS: partition
-- ARGV: now id revision state progress hand kept
-- uses: time unrefused operations
--
-- `hand` and `kept`: a list of one text, or of none. Answers 1 if it was moved.
local row = operation_row(id)
if not row or row[OPERATION_REVISION] ~= tonumber(revision) then
    return 0
end
row[OPERATION_STATE], row[OPERATION_PROGRESS] = state, progress
row[OPERATION_HAND] = cmsgpack.unpack(hand)[1] or false
row[OPERATION_REVISION], row[OPERATION_ADVANCED_AT] = row[OPERATION_REVISION] + 1, moment
keep_operation(id, row)
local page = cmsgpack.unpack(kept)[1]
if page then
    redis.call('RPUSH', partition .. ':operation-kept:' .. id, page)
end
return 1
