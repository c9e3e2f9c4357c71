-- The sorted sets in which an act stands by the time of its begin: all acts, those of one operator,
-- and those on one target.
local function audit_lists(row)
    local lists = {partition .. ':audit-time', partition .. ':audit-by:' .. row[AUDIT_BY]}
    if row[AUDIT_TARGET] ~= '' then
        lists[3] = partition .. ':audit-target:' .. row[AUDIT_TARGET]
    end
    return lists
end
