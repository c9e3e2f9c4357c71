-- Rows that are still open, oldest plan first, then by scope.
-- KEYS: partition
-- ARGV: schedule first limit
-- uses: ledger
--
-- `first` bounds the members of ledger-open. Answers name, row, name, row, …
local key = of_schedule('ledger-open', schedule)
local names = redis.call('ZRANGEBYLEX', key, first, '+', 'LIMIT', 0, limit)
for n = 1, #names do
    local time, scope = time_and_scope(names[n])
    names[n] = row_name(scope, time)
end
return named_rows(schedule, names)
