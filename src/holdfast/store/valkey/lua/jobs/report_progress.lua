-- Keep the progress of running attempts. A value that a report leaves out stays as it was.
-- KEYS: partition
-- ARGV: now reports
-- uses: unrefused time record counts changes
--
-- `reports`: a ReportRow each. Answers 1 or 0 for each.
local batch, ids, answer = cmsgpack.unpack(reports), {}, {}
for n = 1, #batch do
    ids[n] = batch[n][REPORT_ID]
end
load(ids)

local function keep(id, report)
    local key = 'p:' .. id
    local before = texts[key] or redis.call('GET', partition .. ':' .. key)
    local row = before and cmsgpack.unpack(before) or {}
    row[PROGRESS_FRACTION] = report[REPORT_FRACTION] or row[PROGRESS_FRACTION] or false
    row[PROGRESS_MESSAGE] = report[REPORT_MESSAGE] or row[PROGRESS_MESSAGE] or false
    row[PROGRESS_CHECKPOINT] = report[REPORT_CHECKPOINT] or row[PROGRESS_CHECKPOINT] or false
    row[PROGRESS_AT] = moment
    texts[key] = cmsgpack.pack(row)
    if not records[id][HAS_PROGRESS] then
        records[id][HAS_PROGRESS] = true
        changed[id] = true
    end
end

for n = 1, #batch do
    local record = records[ids[n]]
    local ours = record and record[STATE] == 'running' and record[FENCE] == batch[n][REPORT_FENCE]
    if ours then
        keep(ids[n], batch[n])
    end
    answer[n] = ours and 1 or 0
end
flush()
return answer
