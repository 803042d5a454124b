-- Runs are listed by whose they are, the newest first, without a look at everybody else's.

-- What belongs to no API key (channels, schedules) is one list: the operator's token alone sees it. Those of a session are
-- found by their conversation: every change of a run's row writes to each index that it stands in.
create index runs_of_principal on runs ((case when principal like 'key:%' then principal else '' end), id);
