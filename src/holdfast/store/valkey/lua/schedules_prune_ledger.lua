-- Remove rows of one schedule whose time to be kept is over, but for those of live jobs.
-- KEYS: partition
-- ARGV: now schedule offset limit
-- uses: time record counts changes ledger started
--
-- `offset` rows were looked at before and stay. Answers how many were removed, how many stay.
local expiry = of_schedule('ledger-expiry', schedule)
local names = redis.call('ZRANGEBYSCORE', expiry, '-inf', moment, 'LIMIT', offset, limit)
local rows, jobs = packed_rows(schedule, names), {}
for n = 1, #names do
    rows[n] = rows[n] and cmsgpack.unpack(rows[n]) or {}
    jobs[#jobs + 1] = rows[n][STARTED] or nil
end
local live, gone = living(jobs), {}
for n = 1, #names do
    local name, job = names[n], rows[n][STARTED]
    if not (job and live[job]) then
        local scope, at = scope_and_time(name)
        gone[#gone + 1] = name
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
each('HDEL', of_schedule('ledger', schedule), gone)
local soonest = redis.call('ZRANGE', expiry, 0, 0, 'WITHSCORES')
redis.call('ZREM', partition .. ':ledgers', schedule)
if soonest[2] then
    redis.call('ZADD', partition .. ':ledgers', soonest[2], schedule)
end
return {#gone, #names - #gone}
