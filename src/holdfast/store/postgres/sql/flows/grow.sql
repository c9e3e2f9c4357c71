-- $1 flow   $2 number of new nodes
update {{schema}}.flow set total = total + $2::int, open = open + $2::int, epoch = epoch + 1
where id = $1::uuid
returning epoch
