-- Shut buckets that jobs of other partitions were refused by, for at least so many seconds.
-- KEYS: partition
-- ARGV: now chosen
-- uses: time rules queues
--
-- `chosen`: bucket, seconds, …
local given = cmsgpack.unpack(chosen)
for n = 1, #given, 2 do
    local row = permits.change(given[n])
    row[BUCKET_SHUT_UNTIL], row[BUCKET_THROTTLES] =
        cool_window(row[BUCKET_SHUT_UNTIL], row[BUCKET_THROTTLES], given[n + 1], FRESH_SETTINGS)
end
permits.save()
return 1
