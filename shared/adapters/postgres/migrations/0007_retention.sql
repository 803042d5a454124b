-- Retention finds what is old by an index, whatever else stands beside it.

create index deliveries_done on deliveries (created_at) where state in ('sent', 'dropped');
create index deliveries_alone on deliveries (created_at) where run is null;
create index webhooks_done on webhooks (created_at) where state in ('sent', 'dropped');
