-- Remove documents whose time is over.
-- KEYS: partition
-- ARGV: now limit
-- uses: time shelf
--
-- Answers how many were removed.
local till = string.format('%.0f', moment)
local over = redis.call(
    'ZRANGEBYSCORE', partition .. ':shelf-expiry', '-inf', till, 'LIMIT', 0, limit
)
for _, member in ipairs(over) do
    local kind, key = string.match(member, '^([^:]+):(.*)$')
    remove_document(kind, key)
end
return #over
