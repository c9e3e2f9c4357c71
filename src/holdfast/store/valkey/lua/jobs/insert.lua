-- Add jobs. A job whose id exists changes nothing: it is answered 'created' if the job in the store
-- has the same task and arguments, and 'taken' if not.
-- KEYS: partition
-- ARGV: now arrival kept_otherwise jobs
-- uses: time arrival record counts changes names places queues moves insertion release
--
-- `jobs`: a JobRow each. Answers id, how, id, how, … in the order given.
local answers = {}
for _, job in ipairs(cmsgpack.unpack(jobs)) do
    local id, how = insert_once(job)
    answers[#answers + 1] = id
    answers[#answers + 1] = how
end
release_ended()
flush()
return answers
