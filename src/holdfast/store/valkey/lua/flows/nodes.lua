-- Some nodes of a flow by name.
-- KEYS: partition
-- ARGV: flow behind limit
-- uses: record gates node_names
--
-- `behind`: where to begin, as ZRANGEBYLEX takes it. Answers for each node its name with its id, its
-- record, and for each of its open gates the edges that are not decided (upstream, wants, …).
local members = redis.call('ZRANGEBYLEX', partition .. ':fn:' .. flow, behind, '+', 'LIMIT', 0, limit)
local answer = {}
for n, member in ipairs(members) do
    local id = id_of(member)
    local packed = redis.call('GET', partition .. ':s:' .. id)
    local edges = {}
    load({id})
    local record = records[id]
    for g, gate in ipairs(record and record[NODE] and record[NODE][NODE_GATES] or {}) do
        edges[g] = redis.call('ZRANGE', partition .. ':' .. gate_key(id, gate), 0, -1, 'WITHSCORES')
    end
    answer[n] = {member, packed, edges}
end
return answer
