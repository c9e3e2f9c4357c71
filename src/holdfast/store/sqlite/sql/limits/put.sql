insert into holdfast_limit_rule (name, settings, edited)
values (:name, :settings, 1)
on conflict (name) do update set
    settings = excluded.settings, edited = 1, retired = 0, revision = revision + 1
