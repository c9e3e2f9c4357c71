-- $1 now   $2 queues (null: all)   $3 how many buckets, and lines of each, to look at
-- The first bucket at which a line of these queues is among the first lines, or that has more lines than were looked at.
-- Where none of the first buckets is such a one, the last of them.
with first as materialized (
    select name, opens_at from {{schema}}.bucket
    where has_waiting and opens_at is not null
    order by opens_at limit $3::int
)
select extract(epoch from coalesce(
    (select min(first.opens_at) from first
     where $2::text[] is null or (
        select count(*) = $3::int or coalesce(bool_or(parked.queue = any ($2::text[])), false)
        from (
            select line.queue from {{schema}}.line where line.parked_at = first.name
            order by line.priority, line.turn, line.n limit $3::int
        ) as parked)),
    (select case when count(*) = $3::int then max(first.opens_at) end from first)
) - {{now}})::float8
