insert into holdfast_bucket (name, override, touched_at)
values (:name, :override, :now)
on conflict (name) do update set override = excluded.override
