-- Say how an act ended.
-- KEYS: partition
-- ARGV: now id outcome changed error
-- uses: time unrefused
--
-- `error`: a list of one text, or of none.
local found = redis.call('HGET', partition .. ':audit', id)
if not found then
    return 0
end
local act = cmsgpack.unpack(found)
act[AUDIT_CLOSED_AT], act[AUDIT_OUTCOME] = moment, outcome
act[AUDIT_CHANGED], act[AUDIT_ERROR] = tonumber(changed), cmsgpack.unpack(error)[1] or false
redis.call('HSET', partition .. ':audit', id, cmsgpack.pack(act))
return 1
