-- The queues in which jobs with limits may begin, each behind a `+`; null if there are none. A function, so that a
-- claim does not prepare these scans where no line is: they would be a fifth of a lone claim.
create function {{schema}}.lines_wait(queues text[], now timestamptz) returns text[] language plpgsql stable as $$
begin
    return (
        select array_agg('+' || asked.queue) from unnest(queues) as asked (queue)
        where exists (select from {{schema}}.newcomer where newcomer.queue = asked.queue)
        or exists (select from {{schema}}.line where line.queue = asked.queue) and (
            exists (select from {{schema}}.line where line.queue = asked.queue and line.parked_at is null)
            or exists (select from {{schema}}.bucket where has_waiting and opens_at <= now)));
end $$;
