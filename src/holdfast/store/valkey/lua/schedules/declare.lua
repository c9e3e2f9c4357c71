-- Add schedules that are absent and update those that differ. A schedule that an operator edited,
-- or that a younger program declares, is not updated.
-- KEYS: partition
-- ARGV: now since counts_for declared
-- uses: time schedules
--
-- `since`: when the program began to run, '' for now. `counts_for`: microseconds that a declaration
-- counts. `declared`: [name, definition, rule, keep]. Evaluators are woken only by a change: every
-- worker that starts declares the same again.
local news, runs_since = false, tonumber(since) or moment

local function wins(row)
    local seen_at = row[SCHEDULE_CODE_SEEN_AT]
    local gone = seen_at and seen_at < moment - tonumber(counts_for)
    return not row[SCHEDULE_EDITED] and (gone or row[SCHEDULE_CODE_SINCE] <= runs_since)
end

for _, one in ipairs(cmsgpack.unpack(declared)) do
    local name, definition, rule, keep = unpack(one)
    local row = schedule_row(name)
    local is_new = not row
    local differs = row and row[SCHEDULE_DEFINITION] ~= definition
    if is_new or (differs and wins(row)) then
        if is_new then
            row = new_schedule(definition, rule, keep, false)
        else
            define(row, definition, rule, keep)
        end
        row[SCHEDULE_CODE_SINCE], row[SCHEDULE_CODE_SEEN_AT] = runs_since, moment
        row[SCHEDULE_RIVAL], row[SCHEDULE_RIVAL_AT] = false, false
        news = true
    elseif differs then
        row[SCHEDULE_RIVAL] = not row[SCHEDULE_EDITED] and definition
        row[SCHEDULE_RIVAL_AT] = not row[SCHEDULE_EDITED] and moment
    else
        row[SCHEDULE_CODE_SINCE] = math.max(row[SCHEDULE_CODE_SINCE] or runs_since, runs_since)
        row[SCHEDULE_CODE_SEEN_AT] = moment
    end
    row[SCHEDULE_DECLARED_AT] = moment
    keep_schedule(name, row, is_new)
end
if news then
    tell_evaluators()
end
return 1
