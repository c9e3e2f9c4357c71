-- $1 now   $2 limit   $3 seconds lapsed
with shortened as (
    -- a lease that ends later than its length from now: the clock was set back
    update {{schema}}.worker
    set expires_at = {{now}} + lease * interval '1 second'
    where expires_at > {{now}} + lease * interval '1 second'
),
lapsed as materialized (
    select id from {{schema}}.worker
    where expires_at < {{now}} - $3::float8 * interval '1 second'
    and not exists (select from {{schema}}.lease where lease.worker_id = worker.id)
    order by expires_at limit $2::int
    for update skip locked
),
gone as (
    delete from {{schema}}.worker where id = any (array(select id from lapsed)) returning id, facts
),
kept as (
    insert into {{schema}}.worker_count as sums (name, n)
    select counted.key, sum(counted.value::bigint)
    from gone cross join lateral json_each_text(facts::json -> 'counts') as counted
    group by counted.key order by counted.key collate "C"
    on conflict (name) do update set n = sums.n + excluded.n
),
uncounted as (
    delete from {{schema}}.counter
    where topic = 'cancel' and name = any (array(select id::text from gone))
)
select count(*)::int from gone
