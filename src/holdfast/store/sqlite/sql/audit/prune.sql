delete from holdfast_audit
where id in (select id from holdfast_audit where begun_at <= ? order by begun_at, id limit ?)
