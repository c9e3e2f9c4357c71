-- Gives `happened` for jobs that do not run. Expects `told_of` (job_id, attempts, fence), and takes the
-- words `what`, `by`, `due` and `message`, which may name other columns of `told_of`.
happened as (
    select job_id, fence, null::timestamptz as claimed_at, {{due}} as due_at, null::uuid as worker_id,
        attempts as attempt, {{what}} as what, {{by}} as by, null::text as kind, {{message}} as message,
        null::text as traceback, null::text as fingerprint
    from told_of
)
