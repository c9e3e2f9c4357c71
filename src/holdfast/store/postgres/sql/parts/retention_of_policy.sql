-- The seconds that a policy keeps a job that neither succeeded nor failed: null for ever, `otherwise`
-- if it does not say. By pattern: a policy that is no JSON would end the statement for every other
-- job in it.
case when job.policy !~ '"retention":[{][^}]*"other":null[,}]' then coalesce(
    substring(job.policy from '"retention":[{][^}]*"other":([0-9]{1,10}(?:[.][0-9]+)?)[,}]')::float8,
    {{otherwise}}) end
