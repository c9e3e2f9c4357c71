-- KEYS: none. ARGV: fence, name, result, then jobs
local kept = 0
for n = 4, #ARGV do
    if redis.call('GET', 'lease:' .. ARGV[n]) == ARGV[1] then
        kept = kept + redis.call('HSETNX', 'steps:' .. ARGV[n], ARGV[2], ARGV[3])
    end
end
return kept
