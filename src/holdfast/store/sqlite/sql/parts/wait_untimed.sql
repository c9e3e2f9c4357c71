insert into {{place}} (job_id, queue, priority, seq, task, attempts, crashes, fence, ties)
values (?, ?, ?, ?, ?, ?, ?, ?, ?)
