-- An operator makes or edits a schedule; with a revision only if it is still at that one.
-- KEYS: partition
-- ARGV: now name definition rule keep revision
-- uses: time schedules
--
-- `revision` is '' where any will do, 0 where there must be none. Answers 1 if it was taken.
local row = schedule_row(name)
if revision ~= '' and (row and row[SCHEDULE_REVISION] or 0) ~= tonumber(revision) then
    return 0
end
local is_new = not row
if row then
    define(row, definition, rule, tonumber(keep))
    row[SCHEDULE_EDITED] = true
else
    row = new_schedule(definition, rule, tonumber(keep), true)
end
keep_schedule(name, row, is_new)
tell_evaluators()
return 1
