-- $1 now   $2 job ids   $3 fences   $4 results   $5 seconds to keep (null: for ever)
-- $6 how long to wait for a lease that others have locked (null: as the transaction does)
-- $7 channel   $8 receipts of leases that the same transaction has ended before   $9 what attempts have spent in all,
-- by job and limit (null: nothing to say)
-- uses: succeeded counted
-- let closed: job_id, queue, priority, task, attempts, crashes, fence, ties, claimed_at, worker_id, buckets, costs, spent
-- let guard: true
-- As jobs/finish_succeeded.sql, for jobs that hold permits: they are given back in the same statement. Answers with
-- the ids that were refused, and one row without an id.
with {{succeeded}},
{{counted}}
select asked_id from ended where job_id is null
union all
select null
-- the bound is for leases: claims and other ends hold buckets only for one statement
where case when $6::text is not null then set_config('lock_timeout', '0', true) end is distinct from ''
and {{schema}}.give_back($7::text,
    array(
        select row(buckets, costs, coalesce(spent, '{}') || coalesce($9::jsonb -> job_id::text, '{}'), 'estimate',
            claimed_at)::{{schema}}.receipt
        from ended where buckets is not null
    ) || $8::text[]::{{schema}}.receipt[], {{now}}) is not null
