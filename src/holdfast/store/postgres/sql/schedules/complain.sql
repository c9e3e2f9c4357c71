-- $1 now   $2 name   $3 error (null: none any more). An error that is shown already keeps its time.
update {{schema}}.schedule
set error = $3::text,
    error_at = case when $3::text is not null then {{now}} end
where name = $2::text and error is distinct from $3::text
