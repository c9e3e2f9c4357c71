-- A minute is closed; what is sealed is encrypted.
alter table holdfast_rolling rename column sealed to closed;
