(:by is null or "by" = :by)
    and (:verb is null or verb = :verb)
    and (:after is null or begun_at > :after)
    and (:before is null or begun_at < :before)
    and (
        :cursor is null
        or (begun_at, id) < (select begun_at, id from holdfast_audit where id = :cursor)
    )
order by begun_at desc, id desc
limit :limit
