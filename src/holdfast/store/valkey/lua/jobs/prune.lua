-- Remove ended jobs whose retention is over, and what is left of jobs that were put aside. Answers
-- how many.
-- KEYS: partition
-- ARGV: now limit
-- uses: time record counts changes names places removal undone
local ids = redis.call('ZRANGEBYSCORE', partition .. ':expiry', '-inf', moment, 'LIMIT', 0, limit)
load(ids)
local count_removed = 0
for _, id in ipairs(ids) do
    local record = records[id]
    if not (record and owes_undo(id, record)) then
        remove(id, record and ENDED[record[STATE]] and record, 'pruned')
        count_removed = count_removed + 1
    end
end
flush()
return count_removed
