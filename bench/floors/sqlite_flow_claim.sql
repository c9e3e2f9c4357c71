-- name: leave
delete from ready where id in (select id from ready order by id limit ?) returning id
-- name: lease
insert into lease (id, claimed_at) values (?, ?)
-- name: read
select id, args from job where id in (select value from json_each(?))
