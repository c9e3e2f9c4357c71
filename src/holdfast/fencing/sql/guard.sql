-- $1 resource   $2 job   $3 fence   $4 when it was claimed, in microseconds
-- The row stays locked until the transaction ends, so two attempts write one after the other.
insert into resource_fence (resource, job_id, fence, claimed_at)
values ($1, $2, $3, $4)
on conflict (resource) do update
set job_id = excluded.job_id, fence = excluded.fence, claimed_at = excluded.claimed_at
where case
    when resource_fence.job_id = excluded.job_id then resource_fence.fence <= excluded.fence
    else resource_fence.claimed_at <= excluded.claimed_at
end
returning fence
