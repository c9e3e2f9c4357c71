-- Give the first ready jobs without limits of these queues and tasks to a worker.
-- KEYS: partition
-- ARGV: now worker wants tasks inline
-- uses: claiming limits_matter
--
-- Answers as `claim_jobs` does; or 0, and nothing is changed, where limits matter: then claim_limited.lua has to give
-- them. It knows all jobs, and needs longer to begin.
if limits_matter(wanted) then
    return 0
end
return claim_jobs(function(want)
    choose_plain(want, 0, want[2])
end)
