-- Put aside jobs that a worker holds and that cannot be read. Answers their ids.
-- KEYS: partition
-- ARGV: now worker unread chosen
-- uses: time record counts changes names places aside
--
-- `chosen`: ids. `unread` is '1' if the caller could not read the jobs' bodies; otherwise a job is
-- put aside only if its record cannot be read.
local ids, answer = cmsgpack.unpack(chosen), {}
load(ids)
for _, id in ipairs(ids) do
    local record = records[id]
    local ours = record and record[STATE] == 'running' and record[WORKER] == worker
    if ours and unread == '1' then
        leave(id, record)
        answer[#answer + 1] = id
    elseif not record and redis.call('ZSCORE', partition .. ':held:' .. worker, id) then
        put('held:' .. worker, id, false)
        workers_touched[worker] = true
        answer[#answer + 1] = id
    end
end
flush()
for n = 1, #answer do
    put_aside(answer[n])
end
return answer
