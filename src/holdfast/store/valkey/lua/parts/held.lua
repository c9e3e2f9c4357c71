-- The records of all jobs that run, by id.
-- uses: record
local function load_held()
    for _, worker in ipairs(redis.call('SMEMBERS', partition .. ':holders')) do
        load(redis.call('ZRANGE', partition .. ':held:' .. worker, 0, -1))
    end
    return records
end
