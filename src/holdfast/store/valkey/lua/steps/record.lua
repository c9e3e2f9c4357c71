-- Write down steps of running attempts.
-- KEYS: partition
-- ARGV: now chosen
-- uses: unrefused time record counts changes steps
--
-- `chosen`: a NewStepRow each. Answers 1 or 0 for each.
local batch, ids, answer = cmsgpack.unpack(chosen), {}, {}
for n = 1, #batch do
    ids[n] = batch[n][NEW_STEP_ID]
end
load(ids)
for n = 1, #batch do
    local record = records[ids[n]]
    local ours = record and record[STATE] == 'running' and record[FENCE] == batch[n][NEW_STEP_FENCE]
    if ours then
        record_step(ids[n], record, batch[n])
    end
    answer[n] = ours and 1 or 0
end
flush()
return answer
