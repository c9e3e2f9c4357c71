-- A minute is closed; what is sealed is encrypted.
alter table {{schema}}.rolling rename column sealed to closed;
