-- $1 id, $2 arguments. The notification is sent by the commit, when the job can be claimed.
with body as (
    insert into job (id, args) values ($1, $2) returning id
),
waiting as (
    insert into ready (id) select id from body
)
select pg_notify('floor', '')
