update node set state = 1, started_at = ?
where id in (select id from node where state = 0 and waits = 0 order by id limit ?)
returning id, args
