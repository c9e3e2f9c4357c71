-- $1 .. $9 as in filtered   $10 before this id   $11 limit
-- uses: filtered
-- The places are merged in order of the key, so a page reads as many rows as it passes over.
select place.job_id
from {{schema}}.place
where place.job_id < coalesce($10::uuid, 'ffffffff-ffff-ffff-ffff-ffffffffffff')
and {{filtered}}
order by place.job_id desc
limit $11::int
