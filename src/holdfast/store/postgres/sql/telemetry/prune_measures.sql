-- $1 now   $2 limit   $3 steps   $4 grains   $5 seconds that each is kept
with gone as (
    delete from {{schema}}.series
    where ctid = any (array(
        select old.ctid
        from unnest($3::int[], $4::text[], $5::float8[]) as kept (step, grain, seconds)
        cross join lateral (
            select series.ctid from {{schema}}.series
            where series.step = kept.step and series.grain = kept.grain
            and series.at < {{now}} - kept.seconds * interval '1 second'
            limit $2::int
        ) as old
        limit $2::int
    ))
    returning 1
)
select count(*)::int from gone
