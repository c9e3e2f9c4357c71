-- Keep what running attempts have spent of budgets. Limits that a report does not name keep their totals.
-- KEYS: partition
-- ARGV: now reports
-- uses: unrefused time record counts changes
--
-- `reports`: [id, fence, [limit, units, …]]. Answers 1 or 0 for each.
local batch, ids, answer = cmsgpack.unpack(reports), {}, {}
for n = 1, #batch do
    ids[n] = batch[n][1]
end
load(ids)

local function keep(id, record, spent)
    local totals = record[SPENT] or {}
    for n = 1, #spent, 2 do
        local at = 1
        while totals[at] and totals[at] ~= spent[n] do
            at = at + 2
        end
        totals[at], totals[at + 1] = spent[n], spent[n + 1]
    end
    record[SPENT], changed[id] = totals, true
end

for n = 1, #batch do
    local record = records[ids[n]]
    local is_ours = record and record[STATE] == 'running' and record[FENCE] == batch[n][2]
    if is_ours and record[BUCKETS] then
        keep(ids[n], record, batch[n][3])
    end
    answer[n] = is_ours and 1 or 0
end
flush()
return answer
