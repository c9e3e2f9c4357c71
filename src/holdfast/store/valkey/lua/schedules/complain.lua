-- Show on a schedule what keeps it from being evaluated, and since when.
-- KEYS: partition
-- ARGV: now name complaint
-- uses: time schedules
--
-- `complaint`: [text], or an empty list that clears it.
local row, text = schedule_row(name), cmsgpack.unpack(complaint)[1] or false
if row and row[SCHEDULE_COMPLAINT] ~= text then
    row[SCHEDULE_COMPLAINT], row[SCHEDULE_COMPLAINT_AT] = text, text and moment
    keep_schedule(name, row)
end
return 1
