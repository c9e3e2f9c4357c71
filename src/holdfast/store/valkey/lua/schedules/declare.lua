-- Add schedules that are absent and update those that differ, but for what an operator edited and
-- what a younger program declares.
-- KEYS: partition
-- ARGV: now since counts_for declared
-- uses: time schedules
--
-- `since`: when the program began to run, '' for now. `counts_for`: microseconds that a declaration
-- counts. `declared`: [name, definition, rule, keep]. Tells only news: every worker that starts
-- declares the same again.
local news, runs_since = false, tonumber(since) or moment

local function wins(row)
    local gone = row[CODE_SEEN_AT] and row[CODE_SEEN_AT] < moment - tonumber(counts_for)
    return not row[EDITED] and (gone or row[CODE_SINCE] <= runs_since)
end

for _, one in ipairs(cmsgpack.unpack(declared)) do
    local name, definition, rule, keep = unpack(one)
    local row = schedule_row(name)
    local is_new = not row
    local differs = row and row[DEFINITION] ~= definition
    if is_new or (differs and wins(row)) then
        if is_new then
            row = new_schedule(definition, rule, keep, false)
        else
            define(row, definition, rule, keep)
        end
        row[CODE_SINCE], row[CODE_SEEN_AT] = runs_since, moment
        row[RIVAL], row[RIVAL_AT] = false, false
        news = true
    elseif differs then
        row[RIVAL] = not row[EDITED] and definition
        row[RIVAL_AT] = not row[EDITED] and moment
    else
        row[CODE_SINCE] = math.max(row[CODE_SINCE] or runs_since, runs_since)
        row[CODE_SEEN_AT] = moment
    end
    row[DECLARED_AT] = moment
    keep_schedule(name, row, is_new)
end
if news then
    tell_evaluators()
end
return 1
