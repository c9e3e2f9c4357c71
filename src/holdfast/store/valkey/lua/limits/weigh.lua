-- Give the lines of a key of fairness a weight in every queue; '' leaves it to their jobs again.
-- KEYS: partition
-- ARGV: fair weight
if weight == '' then
    redis.call('HDEL', partition .. ':weights', '=' .. fair)
else
    redis.call('HSET', partition .. ':weights', '=' .. fair, weight)
end
return 1
