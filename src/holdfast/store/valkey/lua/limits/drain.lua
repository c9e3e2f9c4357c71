-- Shut buckets for so many seconds; 0 ends that.
-- KEYS: partition
-- ARGV: now chosen
-- uses: time rules
--
-- `chosen`: bucket, seconds, …
local given = cmsgpack.unpack(chosen)
for n = 1, #given, 2 do
    local row, seconds = permits.change(given[n]), given[n + 1]
    row[BUCKET_SHUT_UNTIL] = seconds > 0 and after(seconds)
    row[BUCKET_THROTTLES] = seconds > 0 and 1 or 0
    look_again(given[n])
end
permits.save()
return 1
