select {{parts/flow_columns}}
from holdfast_flow as f
where (:cursor is null or f.id < :cursor)
    and (:ids is null or f.id in (select value from json_each(:ids)))
    and (:states is null or f.state in (select value from json_each(:states)))
    and (:names is null or f.name in (select value from json_each(:names)))
    and (:created_after is null or f.created_at >= :created_after)
    and (:created_before is null or f.created_at < :created_before)
    and not exists (
        select 1 from json_each(:tags) as wanted
        where wanted.value not in (select value from json_each(coalesce(f.tags, '[]')))
    )
order by f.id desc
limit :limit
