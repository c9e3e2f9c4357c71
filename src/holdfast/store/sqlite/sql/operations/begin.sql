insert into holdfast_operation (id, request, state, revision, progress, begun_at, advanced_at)
values (:id, :request, 'running', 1, :progress, :now, :now)
on conflict (id) do nothing
