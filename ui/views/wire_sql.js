// @ts-check
// The questions of the wire view: what a tap saw of one port in a stretch of time, its seconds, and its requests.
import { quote } from '../format.js';

/** Taps and captures that have rows in the last hour. */
export const SOURCES = `select source, host, server_port, tier, max(ts) as last_ts, sum(arrivals) as arrivals
from wire_slice where ts > now() - interval '60 minutes'
group by source, host, server_port, tier having sum(arrivals) > 0 or sum(syns) > 0
order by tier, arrivals desc limit 100`;

/** @typedef {{source: string, host: string, port: number, minutes: number}} Place */

const where = ({ source, port, minutes }) => `source = ${quote(source)} and server_port = ${port}
  and ts > now() - interval '${minutes} minutes'`;

/** Arrivals and completions by packets, completions by the proxies' logs of the same host. @param {Place} place */
export const axis = place => `select s.ts, s.arrivals, s.completions, l.completions as logged_completions, s.concurrency
from wire_slice s left join (
  select date_bin(interval '1 second', ts) as ts, count(*) as completions from request
  where tier = 'proxy' and host = ${quote(place.host)} and ts > now() - interval '${place.minutes} minutes' group by 1
) l on l.ts = s.ts
where s.source = ${quote(place.source)} and s.server_port = ${place.port} and s.ts > now() - interval '${place.minutes} minutes'
order by s.ts`;

/** The numbers that a verdict rests on. @param {Place} place */
export const numbers = place => `select count(*) as seconds, count(*) filter (where is_lossy) as lossy_seconds, sum(arrivals) as arrivals,
  count(*) filter (where verdict = 'smooth') as smooth, count(*) filter (where verdict = 'accept_queue') as accept_queue,
  count(*) filter (where verdict = 'keepalive_race') as keepalive_race, count(*) filter (where verdict = 'path_loss') as path_loss,
  count(*) filter (where verdict = 'upstream_network_jitter') as upstream_network_jitter, count(*) filter (where verdict = 'client_reader') as client_reader,
  count(*) filter (where verdict = 'slow_app') as slow_app, count(*) filter (where verdict = 'unknown') as unknown,
  sum(syns) as syns, sum(late_syns) as late_syns, sum(closing_races) as closing_races, sum(packets) as packets,
  sum(retransmits) as retransmits, sum(spurious_retransmits) as spurious_retransmits, sum(missing) as missing, sum(zero_windows) as zero_windows,
  max(delay_variation_p95_seconds) as delay_variation_seconds, median(think_p95_seconds) as think_p95_seconds, max(think_p95_seconds) as think_worst_seconds,
  max(dispersion_100ms) as dispersion_100ms, min(sampled_ratio) as sampled_ratio, sum(tap_drops) as tap_drops, sum(softnet_drops) as softnet_drops
from wire_slice where ${where(place)}`;

/** Each second. @param {Place} place */
export const seconds = place => `select ts, arrivals, completions, concurrency, think_p95_seconds, transfer_p95_seconds, syn_wait_p95_seconds,
  late_syns, retransmits, zero_windows, is_lossy, verdict
from wire_slice where ${where(place)} and (arrivals > 0 or completions > 0 or syns > 0)
order by ts desc limit 600`;

const REQUEST = `select w.source_offset, w.connection_number, w.connection_requests, w.tier, r.client_address, r.server_port, r.http_request_method, r.url_path,
  w.url_template, r.http_response_status_code, w.request_first_ts, w.request_last_ts, w.response_first_ts, w.response_last_ts, w.response_acked_ts,
  r.duration_seconds, w.think_seconds, w.transfer_seconds, w.request_retransmits, w.response_retransmits, w.parent_source_offset, w."end"
from wire_request w join request r on r.source = w.source and r.source_offset = w.source_offset and r.ts = w.ts`;
// A request has its row when it is over: that may be long after its slice.
const LONGEST = "interval '10 minutes'";

const around = (ts, width) => `w.ts >= timestamp ${quote(ts)} and w.ts <= timestamp ${quote(ts)} + ${LONGEST}
  and r.ts >= timestamp ${quote(ts)} and r.ts <= timestamp ${quote(ts)} + ${LONGEST}
  and w.request_first_ts >= timestamp ${quote(ts)} and w.request_first_ts < timestamp ${quote(ts)} + interval '${width} seconds'`;

/** Requests that began in a second, the slowest first. @param {Place} place @param {string} ts */
export const requests = (place, ts) => `${REQUEST}
where w.source = ${quote(place.source)} and r.server_port = ${place.port} and ${around(ts, 1)}
order by r.duration_seconds desc nulls first limit 200`;

/** The calls of a request to other servers. @param {string} source @param {any} request */
export const children = (source, request) => `${REQUEST}
where w.source = ${quote(source)} and w.parent_source_offset = ${request.source_offset}
  and ${around(request.request_first_ts, 600)} order by w.request_first_ts limit 10`;

/** Completions in the proxies' logs between two instants. @param {string} from @param {string} to */
export const logged = (from, to) => `select date_bin(interval '1 second', ts) as ts, count(*) as completions from request
where tier = 'proxy' and ts >= timestamp ${quote(from)} and ts <= timestamp ${quote(to)} group by 1 order by 1`;
