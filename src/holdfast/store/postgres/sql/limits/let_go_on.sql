-- $1 channel   $2 bucket
-- Let all lines be looked at again that are parked at a bucket, which is locked. Those that have to wait will be parked
-- again. A claim that serves one of them has locked it: it looks at the bucket when that is free.
with gone as (
    update {{schema}}.line set parked_at = null
    where line.ctid = any (array(
        select line.ctid from {{schema}}.line where line.parked_at = $2::text for update skip locked))
    returning line.queue
)
select count(pg_notify($1::text, 'ready:' || queue)) from (select distinct queue from gone) as told
