-- $1 id   $2 behind this number   $3 limit
select number, jobs from {{schema}}.operation_kept
where operation = $1::uuid and number > $2::int order by number limit $3::int
