-- name: differing
select id
from holdfast_job
where id in (select value from json_each(:ids))
    and (coalesce(:args, args) <> args or coalesce(:tags, tags) is not tags)

-- name: edit
update holdfast_job
set args = coalesce(:args, args), tags = coalesce(:tags, tags)
where id in (select value from json_each(:ids))
