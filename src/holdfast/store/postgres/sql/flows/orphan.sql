-- $1 now   $2 channel   $3 jobs that have ended
-- Owes the cancel of the live flows that these jobs have started.
select {{schema}}.orphan_flows({{now}}, $2::text, job) from unnest($3::uuid[]) as ended (job)
