-- Let more be spent of a budget, or less.
-- KEYS: partition
-- ARGV: now bucket amount
-- uses: time rules
--
-- Answers 1, or 0 if the bucket is of no budget.
local settings = permits.settings(bucket)
if not settings or settings.kind ~= 'budget' then
    return 0
end
permits.kinds.adjust(permits.change(bucket), settings, tonumber(amount))
look_again(bucket)
permits.save()
return 1
