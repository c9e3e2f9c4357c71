insert into holdfast_queue (name, settings) values (?, ?) on conflict do nothing
