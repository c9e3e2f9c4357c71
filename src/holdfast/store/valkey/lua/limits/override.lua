-- Give a bucket settings of its own; '' drops them.
-- KEYS: partition
-- ARGV: now bucket settings
-- uses: time rules
--
-- Answers 1, or 0 if its limit is not defined, or -1 if it is of another kind.
local rule = permits.rule(bucket)
if not rule then
    return 0
elseif settings ~= '' and kind_of(settings) ~= kind_of(rule[RULE_SETTINGS]) then
    return -1
end
permits.row(bucket)[BUCKET_OVERRIDE] = settings ~= '' and settings or false
permits.keep(bucket)
look_again(bucket)
return 1
