-- $1 .. $22 as in walked, filtered and body_fits
-- uses: walked filtered any_body body_fits
-- let once: limit 1
select place.state, count(*)::bigint as jobs
from {{schema}}.place
where {{walked}}
and {{filtered}}
and (
    {{any_body}}
    or exists (
        select from {{schema}}.job where job.id = place.job_id and {{body_fits}} limit 1
    )
)
group by place.state
