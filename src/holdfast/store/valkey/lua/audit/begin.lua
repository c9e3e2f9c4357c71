-- Write down an act that is about to be done, or say that one goes on.
-- KEYS: partition
-- ARGV: now id row
-- uses: time unrefused audit
--
-- `row`: the act without its times. An operator who makes room on a full server is audited too.
local found = redis.call('HGET', partition .. ':audit', id)
local act = cmsgpack.unpack(found or row)
act[AUDIT_BEGUN_AT] = act[AUDIT_BEGUN_AT] or moment
act[AUDIT_SEEN_AT] = moment
act[AUDIT_CLOSED_AT], act[AUDIT_OUTCOME], act[AUDIT_ERROR] = false, false, false
redis.call('HSET', partition .. ':audit', id, cmsgpack.pack(act))
for _, list in ipairs(audit_lists(act)) do
    redis.call('ZADD', list, act[AUDIT_BEGUN_AT], id)
end
return 1
