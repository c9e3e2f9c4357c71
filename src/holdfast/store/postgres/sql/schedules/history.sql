-- $1 schedule   $2 scope (null: all)   $3 before this plan time (null: any)   $4 limit
with recent as materialized (
    (
        select * from {{schema}}.ledger
        where $2::text is null and schedule = $1::text
        and at < coalesce($3::timestamptz, 'infinity')
        order by at desc, scope limit $4::int
    )
    union all
    (
        select * from {{schema}}.ledger
        where $2::text is not null and schedule = $1::text and scope = $2::text
        and at < coalesce($3::timestamptz, 'infinity')
        order by at desc limit $4::int
    )
)
select recent.schedule, recent.scope, recent.at, recent.decision, recent.reason,
    recent.recorded_at, recent.job_id, place.state, place.attempts, place.claimed_at,
    place.finished_at, place.result, newest.error
from recent
left join lateral (
    select * from {{schema}}.place where place.job_id = recent.job_id limit 1
) as place on true
left join lateral (
    select kind || ': ' || message as error from {{schema}}.happening
    where happening.job_id = recent.job_id and kind is not null order by n desc limit 1
) as newest on true
order by recent.at desc, recent.scope
