select id, request, state, revision, progress, hand, begun_at, advanced_at
from holdfast_operation
where (:ids is null or id in (select value from json_each(:ids)))
    and (:states is null or state in (select value from json_each(:states)))
    and (
        :before is null
        or (begun_at, id) < (select begun_at, id from holdfast_operation where id = :before)
    )
order by begun_at desc, id desc
limit :limit
