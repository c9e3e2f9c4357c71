-- $1 job ids
with closed as (
    delete from lease where id = any ($1::bigint[]) returning id, claimed_at
)
insert into outcome (id, claimed_at, finished_at) select id, claimed_at, now() from closed
