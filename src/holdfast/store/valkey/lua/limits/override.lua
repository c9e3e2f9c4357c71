-- Give a bucket settings of its own; '' drops them.
-- KEYS: partition
-- ARGV: now bucket settings calendars
-- uses: time rules
--
-- `calendars`: see limits/declare. Answers 1, or 0 if its limit is not defined, or -1 if it is of another kind.
local rule = permits.rule(bucket)
if not rule then
    return 0
elseif settings ~= '' and kind_of(settings) ~= kind_of(rule[RULE_SETTINGS]) then
    return -1
end
keep_calendars(cmsgpack.unpack(calendars))
permits.change(bucket)[BUCKET_OVERRIDE] = settings ~= '' and settings or false
if settings == '' then
    let_go_on(bucket) -- the parent of a path holds nothing up without settings of its own
else
    look_again(bucket)
end
permits.save()
return 1
