-- Add schedules that are absent and update those that differ, but for what an operator edited.
-- KEYS: partition
-- ARGV: now declared
-- uses: time schedules
--
-- `declared`: [name, definition, rule, keep]. Tells only news: every worker that starts declares
-- the same again.
local news = false
for _, one in ipairs(cmsgpack.unpack(declared)) do
    local name, definition, rule, keep = unpack(one)
    local row = schedule_row(name)
    local is_new = not row
    if is_new then
        row, news = new_schedule(definition, rule, keep, false), true
    elseif not row[EDITED] and row[DEFINITION] ~= definition then
        define(row, definition, rule, keep)
        news = true
    end
    row[DECLARED_AT] = moment
    keep_schedule(name, row, is_new)
end
if news then
    tell_evaluators()
end
return 1
