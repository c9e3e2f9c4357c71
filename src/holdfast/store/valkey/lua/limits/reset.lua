-- Let budgets and rates forget what was spent and what began.
-- KEYS: partition
-- ARGV: now chosen
-- uses: time rules
--
-- Answers 1, or the first bucket that is neither; then nothing is written.
local names = cmsgpack.unpack(chosen)
permits.load(names)
for _, bucket in ipairs(names) do
    local settings = permits.settings(bucket)
    if not settings or settings.kind == 'concurrency' then
        return bucket
    end
end
for _, bucket in ipairs(names) do
    permits.kinds.forget(permits.change(bucket))
    look_again(bucket)
end
permits.save()
return 1
