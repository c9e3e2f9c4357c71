-- ARGV: for each job its id, its place in line, its arguments.
for n = 1, #ARGV, 3 do
    redis.call('SET', 'floor:body:' .. ARGV[n], ARGV[n + 2])
    redis.call('ZADD', 'floor:ready', ARGV[n + 1], ARGV[n])
end
return #ARGV / 3
