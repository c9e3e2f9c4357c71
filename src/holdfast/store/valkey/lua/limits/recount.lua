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

local function is_idle(row)
    return row[BUCKET_IN_USE] == 0 and not row[BUCKET_HAS_WAITING] and not row[BUCKET_OVERRIDE]
        and row[BUCKET_TOUCHED_AT] < idle_since and (row[BUCKET_SHUT_UNTIL] or 0) < idle_since
end

if #names > 0 then
    for _, record in pairs(load_held()) do
        for bucket in string.gmatch(record[BUCKETS] or '', '[^\n]+') do
            held[bucket] = (held[bucket] or 0) + 1
        end
    end
end
for _, bucket in ipairs(names) do
    local row = permits.row(bucket)
    local counted, right = row[BUCKET_IN_USE], held[bucket] or 0
    if counted ~= right then
        wrong[#wrong + 1], wrong[#wrong + 2], wrong[#wrong + 3] = bucket, counted, right
        if mend == '1' then
            row[BUCKET_IN_USE] = right
            permits.keep(bucket)
            look_again(bucket)
        end
    elseif mend == '1' and is_idle(row) then
        redis.call('HDEL', partition .. ':buckets', bucket)
        redis.call('ZREM', partition .. ':bucket_names', bucket)
        forgotten = forgotten + 1
    end
end
return {names, wrong, forgotten}
