-- $1 limit   $2 behind this one
select id::text, flow_id::text, kind, job_id::text, what, at from {{schema}}.errand
where id > $2::bigint order by id limit $1::int
