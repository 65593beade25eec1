// @ts-check
// The questions of the Edge view. `$scope` becomes the condition on the host.

import { BIN, LAST_QUARTER, rise } from './tier_sql.js';

/** Newest state and rates of each listener. Rows come every ten seconds, so a minute has enough of them for a rate. */
export const LISTENERS = `with last as (
  select host, listener, last_value(is_tls order by ts) as is_tls, last_value(connections order by ts) as connections,
    last_value(backlog order by ts) as backlog, last_value(backlog_limit order by ts) as backlog_limit,
    greatest(date_part('epoch', max(ts)) - date_part('epoch', min(ts)), 1) as span,
    max(accepted_total) - min(accepted_total) as accepted, max(refused_total) - min(refused_total) as refused,
    max(requests_total) - min(requests_total) as requests,
    max(received_bytes_total) - min(received_bytes_total) as received, max(sent_bytes_total) - min(sent_bytes_total) as sent
  from edge_listener where ts > now() - interval '70 seconds'$scope
  group by host, listener
)
select host, listener, is_tls, connections, accepted / span as accepted_per_second, requests / span as requests_per_second,
  refused / span as refused_per_second, received / span as received_bytes_per_second, sent / span as sent_bytes_per_second,
  backlog, backlog_limit
from last order by host, listener`;

/** Newest state and rates of each backend, and its share of the requests of its pool. */
export const BACKENDS = `with last as (
  select host, coalesce(pool, '') as pool, backend, last_value(state order by ts) as state, last_value(reason order by ts) as reason,
    last_value(is_believed order by ts) as is_believed, last_value(weight order by ts) as weight,
    last_value(in_flight order by ts) as in_flight, last_value(queued order by ts) as queued,
    last_value(latency_seconds order by ts) as latency_seconds, last_value(idle_timeout_seconds order by ts) as idle_timeout_seconds,
    greatest(date_part('epoch', max(ts)) - date_part('epoch', min(ts)), 1) as span,
    max(requests_total) - min(requests_total) as requests, max(failures_total) - min(failures_total) as failures,
    max(received_bytes_total) - min(received_bytes_total) as received, max(sent_bytes_total) - min(sent_bytes_total) as sent
  from edge_backend where ts > now() - interval '70 seconds'$scope
  group by host, pool, backend
)
select *, requests / span as requests_per_second, failures / span as failures_per_second,
  (received + sent) / span as bytes_per_second,
  requests * 1.0 / nullif(sum(requests) over (partition by host, pool), 0) as share_ratio
from last order by host, pool, backend`;

/** The worst state of each backend in each minute of the last half hour. */
export const HEALTH = `select host, backend, date_bin(interval '1 minute', ts) as ts,
  case when bool_or(state in ('ejected', 'stalled', 'check_failed', 'unresolved')) then 'out'
    when bool_or(state = 'draining') then 'draining' when bool_or(state = 'slow_start') then 'slow_start' else 'up' end as state,
  max(reason) as reason, max(failures_total) - min(failures_total) as failures
from edge_backend where ts > now() - interval '30 minutes'$scope
group by 1, 2, 3 order by 1, 2, 3`;

/** The newest row of each certificate: the edge's own first, then those of other servers. */
export const CERTIFICATES = `with obtained as (
  select host, names, last_value(state order by ts) as state, last_value(not_after order by ts) as not_after,
    last_value(authority order by ts) as origin, last_value(failure order by ts) as failure,
    last_value(next_attempt_ts order by ts) as next_attempt_ts
  from edge_certificate where ts > now() - interval '150 seconds'$scope
  group by host, names
), served as (
  select host, server_name, program, server_address, server_port, last_value(served_not_after order by ts) as not_after,
    last_value(served_digest order by ts) as served, last_value(file_digest order by ts) as filed, last_value(error order by ts) as failure
  from certificate where ts > now() - interval '150 seconds'$scope
  group by host, server_name, program, server_address, server_port
)
select host, names, state, not_after, origin, failure, next_attempt_ts from obtained
union all
select host, case server_name when '' then 'no name' else server_name end,
  case when not_after is null then 'failed' when not_after < now() then 'ended' when served <> filed then 'old' else 'valid' end,
  not_after, program || ' ' || server_address || ':' || server_port, failure, null from served
order by host, not_after nulls first, names`;

/** Bytes of all listeners. */
export const BANDWIDTH = rise('edge_listener', 'listener', [['sent_bytes_total', 'sent_bytes_per_second'],
  ['received_bytes_total', 'received_bytes_per_second']]);

/** Visitors now: each beacon counts fifteen seconds. */
export const VISITORS = `select site, page, count(distinct visit) as visitors, count(distinct client_address) as networks
from beacon
where ts > now() - interval '15 seconds' and kind <> 'end' and not is_bot$scope
group by site, page order by visitors desc, site, page limit 100`;

/** Visitors in each quarter of a minute. */
export const VISITORS_OVER_TIME = `select ${BIN} as ts, coalesce(site, 'no site') as site, count(distinct visit) as visitors
from beacon where kind <> 'end' and not is_bot and ${LAST_QUARTER}
group by 1, 2 order by 1, 2`;

const of = tier => `max(duration_seconds) filter (where tier = '${tier}') as ${tier}_seconds`;

/** Requests that more than one tier measured, those of most tiers and the slowest first. */
export const JOINED = `select request_id, max(ts) as ts, max(url_path) as url_path, max(http_response_status_code) as http_response_status_code,
  ${['client', 'edge', 'proxy', 'app'].map(of).join(', ')}, count(distinct tier) as tiers
from request where request_id is not null and ts > now() - interval '5 minutes'$scope
group by request_id having count(distinct tier) > 1
order by tiers desc, max(duration_seconds) desc limit 50`;

/** All that is known of one request, the visitor's clock first. @param {string} id */
export const oneRequest = id => `select tier, ts, host, url_path, http_response_status_code, duration_seconds, request_read_seconds, queue_seconds,
  upstream_connect_seconds, upstream_header_seconds, upstream_response_seconds, upstream_address, failure
from request where request_id = '${id.replaceAll("'", "''")}'
order by case tier when 'client' then 0 when 'edge' then 1 when 'proxy' then 2 when 'app' then 3 else 4 end, ts`;
