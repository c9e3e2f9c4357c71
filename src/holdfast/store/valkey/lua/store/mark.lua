-- Mark a partition that has no mark: by it a program knows this store from an empty server in its place.
-- KEYS: partition
-- ARGV: now unlike
-- uses: time
--
-- `unlike`: a text that no other store has. Answers the mark. Marks sort by the time at which they were made.
local found = redis.call('GET', partition .. ':mark')
if found then
    return found
end
local made = string.format('%014x', server_time) .. ':' .. unlike
redis.call('SET', partition .. ':mark', made)
return made
