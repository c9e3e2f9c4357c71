-- Rows of the ledger, newest plan first, then by scope.
-- KEYS: partition
-- ARGV: schedule scoped first last limit
-- uses: ledger
--
-- `first` and `last` bound the members of ledger-scope if `scoped` is '1', else of ledger-time.
-- Answers name, row, name, row, …
local key = of_schedule(scoped == '1' and 'ledger-scope' or 'ledger-time', schedule)
local names = redis.call('ZRANGEBYLEX', key, first, last, 'LIMIT', 0, limit)
if scoped ~= '1' then
    for n = 1, #names do
        local time, scope = time_and_scope(names[n])
        names[n] = of_scope(scope) .. time
    end
end
return named_rows(schedule, names)
