-- Make due jobs ready, earliest first.
-- KEYS: partition
-- ARGV: now arrival limit chosen
-- uses: time arrival record counts changes names places queues moves aside
--
-- `chosen`: [id, index] of the jobs to make ready; an empty list lets the script choose up to
-- `limit`. Answers how many became ready, the microseconds until the next job is due (false if none
-- is), and the queues.
local wanted, ids, index = cmsgpack.unpack(chosen), {}, {}
local kept_otherwise = 0
if #wanted == 0 then
    ids = redis.call('ZRANGEBYSCORE', partition .. ':due', '-inf', moment, 'LIMIT', 0, limit)
end
for n = 1, #wanted do
    ids[n], index[n] = wanted[n][1], wanted[n][2]
end
load(ids)
local count_promoted, queues_served, seen, broken = 0, {}, {}, {}
for n = 1, #ids do
    local record = records[ids[n]]
    local waits = record and (record[STATE] == 'scheduled' or record[STATE] == 'suspended')
    if not record then
        broken[#broken + 1] = ids[n]
    elseif not waits then
        put('due', ids[n], false)
    elseif record[AT] and record[AT] <= moment then
        make_ready(ids[n], record, 'promoted', arrive(index[n] or n))
        count_promoted = count_promoted + 1
        if not seen[record[QUEUE]] then
            seen[record[QUEUE]] = true
            queues_served[#queues_served + 1] = record[QUEUE]
        end
    end
end
flush()
for n = 1, #broken do
    put_aside(broken[n])
end
local due = redis.call('ZRANGE', partition .. ':due', 0, 0, 'WITHSCORES')
local wait = due[2] and string.format('%.0f', tonumber(due[2]) - moment) or false
return {count_promoted, wait, queues_served}
