-- Which jobs a claim would give, without giving them.
-- KEYS: partition
-- ARGV: now wants tasks labels only
-- uses: time names counts queues lines limits_matter reopening turns aging
--
-- Answers whether limits matter here, and for each want whether its jobs age, and then member and priority of the first
-- jobs without limits; or where jobs age, member, priority and how old each is, with limits or without.
local wanted, answer = cmsgpack.unpack(wants), {}
local matter = limits_matter(wanted)

local function aged(want, aging)
    local found = {1}
    begin_admission()
    local picked, ages = pick_aged(want[1], aging, want[2], {})
    for n = 1, #ages do
        found[3 * n - 1], found[3 * n] = picked[2 * n - 1], picked[2 * n]
        found[3 * n + 1] = string.format('%.17g', ages[n])
    end
    return found
end

local function plain(want)
    return {0, unpack(takes_plain() and (pick(want[1], want[2])) or {})}
end

if matter then
    reopen_lines()
end
for n, want in ipairs(wanted) do
    local aging = setting_of(want[1], 'aging')
    answer[n] = not is_open(want[1]) and {0} or aging and aged(want, aging) or plain(want)
end
return {matter and 1 or 0, answer}
