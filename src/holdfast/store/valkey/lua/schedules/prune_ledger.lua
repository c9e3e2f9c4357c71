-- Remove rows of one schedule whose retention is over, but for the rows of live jobs. The row of an
-- open plan has no such time.
-- KEYS: partition
-- ARGV: now schedule offset limit
-- uses: time record counts changes schedules ledger started
--
-- The first `offset` rows are known to stay. Answers how many rows were removed, and how many more
-- stay.
local expiry = of_schedule('ledger-expiry', schedule)
local names = redis.call('ZRANGEBYSCORE', expiry, '-inf', moment, 'LIMIT', offset, limit)
local rows, jobs = packed_rows(schedule, names), {}
for n = 1, #names do
    rows[n] = rows[n] and cmsgpack.unpack(rows[n]) or {}
    jobs[#jobs + 1] = rows[n][LEDGER_JOB] or nil
end
local live, gone = living(jobs), {}
local oldest, newest -- of the plans that fired
for n = 1, #names do
    local name, job = names[n], rows[n][LEDGER_JOB]
    if not (job and live[job]) then
        local scope, at = scope_and_time(name)
        gone[#gone + 1] = name
        if rows[n][LEDGER_DECISION] == 'fired' then
            oldest = (oldest and oldest < at) and oldest or at
            newest = (newest and newest > at) and newest or at
        end
        put('ledger-expiry:' .. schedule, name, false)
        put('ledger-scope:' .. schedule, name, false)
        put('ledger-time:' .. schedule, inverted(at) .. scope, false)
        put('ledger-open:' .. schedule, at .. scope, false)
        if job then
            put('started:' .. schedule, started_name(scope, at, job), false)
        end
    end
end
flush()
local row = oldest and schedule_row(schedule)
if row then
    local from, till = row[SCHEDULE_PRUNED_FROM], row[SCHEDULE_PRUNED_UNTIL]
    row[SCHEDULE_PRUNED_FROM] = from and from < oldest and from or oldest
    row[SCHEDULE_PRUNED_UNTIL] = till and till > newest and till or newest
    keep_schedule(schedule, row)
end
each('HDEL', of_schedule('ledger', schedule), gone)
local soonest = redis.call('ZRANGE', expiry, 0, 0, 'WITHSCORES')
redis.call('ZREM', partition .. ':ledgers', schedule)
if soonest[2] then
    redis.call('ZADD', partition .. ':ledgers', soonest[2], schedule)
end
return {#gone, #names - #gone}
