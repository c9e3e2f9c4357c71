-- $1 flow   $2 jobs, $3 numbers, $4 needs: of gates of nodes that were skipped
insert into {{schema}}.skipped_gate (flow_id, job_id, n, need)
select $1::uuid, * from unnest($2::uuid[], $3::bigint[], $4::int[])
