-- Define limits, as a program has them or as an operator puts them.
-- KEYS: partition
-- ARGV: now edited rules calendars
-- uses: time rules
--
-- `rules`: name, settings, … `edited` is '1' if an operator says so: then declarations change it no more.
-- `calendars`: a name, and packed when its periods begin, … Answers 1, or the name of a limit that is of another
-- kind, and, if an operator says so, counts something; then nothing is written.
-- An edit is kept, unless the limit was of another kind and is retired.
local given = cmsgpack.unpack(rules)

local function is_other_kind(rule, settings)
    return rule and kind_of(rule[RULE_SETTINGS]) ~= kind_of(settings)
end

for n = 1, #given, 2 do
    local rule = read_rule(given[n])
    if is_other_kind(rule, given[n + 1]) and not rule[RULE_RETIRED] then
        if edited ~= '1' or counts_something(given[n]) then
            return given[n]
        end
    end
end
keep_calendars(cmsgpack.unpack(calendars))
for n = 1, #given, 2 do
    local rule = read_rule(given[n])
    local is_new = not rule
    rule = rule or {given[n + 1], false, false, 0}
    local begins_anew = is_other_kind(rule, given[n + 1])
    local stays_edited = rule[RULE_EDITED] and edited ~= '1' and not begins_anew
    local settings = stays_edited and rule[RULE_SETTINGS] or given[n + 1]
    if is_new or edited == '1' or rule[RULE_RETIRED] or settings ~= rule[RULE_SETTINGS] then
        rule[RULE_SETTINGS], rule[RULE_RETIRED] = settings, false
        rule[RULE_EDITED] = stays_edited or edited == '1'
        rule[RULE_REVISION] = rule[RULE_REVISION] + 1
        keep_rule(given[n], rule, begins_anew)
    end
end
permits.save()
return 1
