-- Show on a schedule what keeps it from being evaluated, since when it first did.
-- KEYS: partition
-- ARGV: now name complaint
-- uses: time schedules
--
-- `complaint`: [text], or an empty list that clears it.
local row, told = schedule_row(name), cmsgpack.unpack(complaint)[1] or false
if row and row[SCHEDULE_COMPLAINT] ~= told then
    row[SCHEDULE_COMPLAINT], row[SCHEDULE_COMPLAINT_AT] = told, told and moment
    keep_schedule(name, row)
end
return 1
