select state, count(*) as flows from {{schema}}.flow group by state
