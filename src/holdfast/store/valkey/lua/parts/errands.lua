-- What flows owe lies in the sorted set `errands`; `owe` in `flows` says what the text of an errand is.
local ERRAND_BATCH = 1000

-- Call a function with each errand, its kind and its flow.
local function each_errand(look_at)
    local from = '-'
    while from do
        local some = redis.call('ZRANGEBYLEX', partition .. ':errands', from, '+', 'LIMIT', 0, ERRAND_BATCH)
        for _, errand in ipairs(some) do
            look_at(errand, string.match(errand, '^%x+:%d+:([^:]*):([^:]*)'))
        end
        from = #some == ERRAND_BATCH and '(' .. some[#some]
    end
end
