-- Compare some buckets with the jobs that they count, and with `mend` correct those that differ.
-- KEYS: partition
-- ARGV: now limit behind_which idle_for mend
-- uses: time record rules held
--
-- Answers the names of the buckets, of those that differ name, what was counted and what is held, and how many
-- were idle for so many seconds and are forgotten.
local names = redis.call(
    'ZRANGEBYLEX', partition .. ':bucket_names', behind_which == '' and '-' or '(' .. behind_which, '+', 'LIMIT', 0, limit
)
local held, wrong, forgotten = {}, {}, 0
local idle_since = moment - tonumber(idle_for) * 1000000

local function is_idle(bucket, row)
    local settings = permits.settings(bucket)
    return row[BUCKET_IN_USE] == 0 and not row[BUCKET_HAS_WAITING] and not row[BUCKET_OVERRIDE]
        and row[BUCKET_TOUCHED_AT] < idle_since and (row[BUCKET_SHUT_UNTIL] or 0) < idle_since
        and (not settings or permits.kinds.keeps_nothing(row, settings))
end

if #names > 0 then
    for _, record in pairs(load_held()) do
        local costs = permits.costs_of(record[COSTS])
        for n, bucket in ipairs((permits.buckets_of(record[BUCKETS] or ''))) do
            held[bucket] = (held[bucket] or 0) + (costs and costs[n] or 1)
        end
        if record[TOTAL] then
            held[record[TOTAL]] = (held[record[TOTAL]] or 0) + 1
        end
    end
end
permits.load(names)
for _, bucket in ipairs(names) do
    local row = permits.row(bucket)
    local counted, right = row[BUCKET_IN_USE], held[bucket] or 0
    if counted ~= right then
        wrong[#wrong + 1], wrong[#wrong + 2], wrong[#wrong + 3] = bucket, counted, right
        if mend == '1' then
            permits.change(bucket)[BUCKET_IN_USE] = right
            look_again(bucket)
        end
    elseif mend == '1' and is_idle(bucket, row) then
        redis.call('HDEL', partition .. ':buckets', bucket)
        redis.call('ZREM', partition .. ':bucket_names', bucket)
        forgotten = forgotten + 1
    end
end
permits.save()
return {names, wrong, forgotten}
