-- Write down an operation that is to run, unless it is there.
-- KEYS: partition
-- ARGV: now id request progress
-- uses: time unrefused operations
if operation_row(id) then
    return 0
end
local row = {}
row[OPERATION_REQUEST], row[OPERATION_STATE], row[OPERATION_REVISION] = request, 'running', 1
row[OPERATION_PROGRESS], row[OPERATION_HAND] = progress, false
row[OPERATION_BEGUN_AT], row[OPERATION_ADVANCED_AT] = moment, moment
keep_operation(id, row)
redis.call('ZADD', partition .. ':operations-time', moment, id)
return 1
