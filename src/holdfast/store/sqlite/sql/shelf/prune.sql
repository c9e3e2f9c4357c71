delete from holdfast_shelf where (kind, key) in (
    select kind, key from holdfast_shelf where expires_at <= ? order by expires_at limit ?
)
