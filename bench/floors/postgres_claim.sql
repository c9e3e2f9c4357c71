-- The batch is a constant, because the planner hashes whole tables when it does not know the limit.
with picked as materialized (
    select id from ready order by id limit 200 for update skip locked
),
taken as (
    delete from ready where id = any (array(select id from picked)) returning id
),
leased as (
    insert into lease (id, claimed_at) select id, now() from taken
)
select taken.id, body.args
from taken
cross join lateral (select args from job where job.id = taken.id limit 1) as body
