-- Give back what was taken without a lease.
-- KEYS: partition
-- ARGV: now takes
-- uses: time rules
--
-- `takes`: [units, buckets, when they were taken].
for _, one in ipairs(cmsgpack.unpack(takes)) do
    local units, buckets, at = one[1], one[2], one[3]
    for n, bucket in ipairs(buckets) do
        local settings = permits.settings(bucket)
        if settings and settings.kind == 'budget' then
            permits.kinds.spend(permits.change(bucket), settings, -units, n < #buckets)
        elseif settings then
            permits.kinds.untake(permits.change(bucket), settings, units, at)
        end
        look_again(bucket)
    end
end
permits.save()
return 1
