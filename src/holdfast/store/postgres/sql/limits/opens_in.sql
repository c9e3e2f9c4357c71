-- $1 now
select extract(epoch from min(opens_at) - {{now}})::float8 from {{schema}}.bucket
where has_waiting and opens_at is not null
