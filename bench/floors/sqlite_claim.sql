update job set state = 1, started_at = ?
where id in (select id from job where state = 0 order by id limit ?)
returning id, args
