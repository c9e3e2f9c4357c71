-- Which places a walk reads, but for its cursor: $1 ids   $2 states   $9 whether any ended state is
-- wanted   $10 whether successes are wanted. State and ended are constants in the branches of live jobs,
-- so branches whose state is not wanted are not read. Without successes an index of the other outcomes
-- is read, with $22, a fingerprint, the index of these.
($1::uuid[] is null or place.job_id = any ($1::uuid[]))
and (place.ended or $2::text[] is null or place.state = any ($2::text[]))
and (not place.ended or $9::boolean)
and (place.state <> 'succeeded' or $10::boolean)
and ($22::text is null or place.fingerprint = $22::text and place.state = 'failed')
