-- End attempts of jobs with limits that returned, and give back what they counted. What is refused changes nothing.
-- KEYS: partition
-- ARGV: now channel moves spent
-- uses: time successes limited wake
--
-- `moves`, and what is answered: see `succeed_all`. `spent`: job → limit, units, … of those that have said so.
local spent_by = cmsgpack.unpack(spent)
local answer = succeed_all(cmsgpack.unpack(moves), TIE_STEPS + TIE_BEGUN + TIE_PERMITS, function(id, record)
    permits.ends('estimate', spent_by[id])
    permits.give_back(record)
end)
if answer ~= 0 then
    for queue, lines in pairs(permits.write()) do
        tell_of_ready(channel, queue, lines)
    end
end
return answer
