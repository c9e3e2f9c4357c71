-- ARGV: ids. They leave the running ones and get an outcome that stays.
redis.call('ZREM', 'floor:running', unpack(ARGV))
local outcomes = {}
for n = 1, #ARGV do
    outcomes[2 * n - 1] = 'floor:outcome:' .. ARGV[n]
    outcomes[2 * n] = 'succeeded'
end
redis.call('MSET', unpack(outcomes))
return #ARGV
