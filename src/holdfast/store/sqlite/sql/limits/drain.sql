insert into holdfast_bucket (name, shut_until, throttles, opens_at, touched_at)
values (:name, :shut_until, :throttles, null, :now)
on conflict (name) do update set
    shut_until = excluded.shut_until, throttles = excluded.throttles, touched_at = excluded.touched_at
