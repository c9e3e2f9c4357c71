-- The first bucket at which a line of these queues is among the first lines, or that has more lines than were looked at.
-- Where none of the first buckets is such a one, the last of them.
with first as (
    select name, opens_at from holdfast_bucket
    where has_waiting and opens_at is not null
    order by opens_at
    limit :most
)
select coalesce(
    (
        select min(f.opens_at) from first as f
        where :queues is null or (
            select count(*) = :most or coalesce(max(p.queue in (select value from json_each(:queues))), 0)
            from (
                select l.queue from holdfast_line as l where l.parked_at = f.name
                order by l.priority, l.turn
                limit :most
            ) as p
        )
    ),
    (select iif(count(*) = :most, max(opens_at), null) from first)
)
