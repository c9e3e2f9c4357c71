-- $1 now   $2 buckets
-- In their order, as they are locked.
insert into {{schema}}.bucket (name, touched_at)
select name, {{now}} from unnest($2::text[]) as given (name)
where not exists (select from {{schema}}.bucket where bucket.name = given.name)
order by name
on conflict do nothing
returning name
