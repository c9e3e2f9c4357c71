-- Create or edit a schedule for an operator. With a revision, only if the schedule still has it.
-- KEYS: partition
-- ARGV: now name definition rule keep revision
-- uses: time schedules
--
-- `revision`: '' for any, 0 if the schedule must not exist. Answers 1 if the definition was written.
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
