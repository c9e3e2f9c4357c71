update job set state = 1, started_at = ?1
where id in (select id from job where state = 0 order by id limit ?2)
returning id, args
