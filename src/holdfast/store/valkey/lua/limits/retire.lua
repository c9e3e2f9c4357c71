-- Let limits hold nothing up any more. Answers those that are defined.
-- KEYS: partition
-- ARGV: now names
-- uses: time rules
local answer = {}
for _, name in ipairs(cmsgpack.unpack(names)) do
    local rule = read_rule(name)
    if rule then
        rule[RULE_RETIRED], rule[RULE_REVISION] = true, rule[RULE_REVISION] + 1
        keep_rule(name, rule)
        answer[#answer + 1] = name
    end
end
permits.save()
return answer
