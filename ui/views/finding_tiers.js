// @ts-check
// A finding in its place: request path with what hurt where, and every tier's own figures on one time with one cursor.
import { html } from '../vendor/preact-htm.js';
import { useApi, useSql } from '../hooks.js';
import { link } from '../router.js';
import { Badge } from '../parts/icon.js';
import { Chart, canChart } from '../parts/chart.js';
import { Empty, OpenSql, Panel, States } from '../parts/panel.js';
import { IN_APP, TO_CLIENT, p, quoted } from './tier_sql.js';
import { TIERS } from './tiers.js';
import { TIERS_BELOW } from './tiers_below.js';

const BEFORE_SECONDS = 600;
const AFTER_SECONDS = 300;
const BINS = 120;

/** Where in the request path on request path: this finding, its root or its symptoms. @param {{f: any}} props */
export function Path({ f }) {
  const loaded = useApi('/api/findings?state=all&limit=500', 10_000);
  const all = loaded.data?.findings ?? [];
  const root = all.find(other => other.finding_id === f.cause_finding_id);
  const head = root ?? f;
  const related = [head, ...all.filter(other => other.cause_finding_id === head.finding_id)];
  const shown = related.some(other => other.finding_id === f.finding_id) ? related : [...related, f];
  const words = f.state === 'firing' ? loaded.data?.verdict : null;
  return html`
    <section class="panel" aria-label="request path" data-path>
      <header><h2>Where in the request path</h2><span class="aside">
        ${root ? html`a symptom: its root is <a href=${link('findings', {}, root.finding_id)}>${root.rule}</a>` : shown.length > 1
          ? 'root cause of findings in other tiers' : 'root cause without symptoms'}</span></header>
      ${words && html`<p class="verdict-words">${words}</p>`}
      <ol class="path">${[...TIERS, ...TIERS_BELOW].map(tier => {
        const here = shown.filter(other => tier.tiers.includes(other.tier));
        return html`<li key=${tier.id} class=${here.some(other => other === head || other.finding_id === head.finding_id) ? 'is-root'
          : here.length ? 'is-hit' : ''}><a href=${link('tier', { host: f.host }, tier.id)}>${tier.title}</a>
          ${here.map(other => html`<p key=${other.finding_id}><${Badge}
            finding=${other} /> ${other.finding_id === f.finding_id ? html`<b>${other.rule}</b>` : html`<a
              href=${link('findings', {}, other.finding_id)}>${other.rule}</a>`}</p>`)}</li>`;
      })}</ol>
    </section>`;
}

/** Every tier's figures around the finding; the cursor of one chart is that of all. @param {{f: any}} props */
export function AllTiers({ f }) {
  const end = f.resolved_ts ? Date.parse(f.resolved_ts) + AFTER_SECONDS * 1e3 : null;
  const start = Date.parse(f.started_ts) - BEFORE_SECONDS * 1e3;
  const bin = Math.max(5, Math.ceil(((end ?? Date.now()) - start) / 1e3 / BINS / 5) * 5);
  const marks = (f.history ?? []).filter((h, i, all) => h.state !== all[i - 1]?.state).map(h => ({ ts: h.ts, label: h.state }));
  const range = { bin: `date_bin(interval '${bin} seconds', ts)`, seconds: bin,
    where: `ts >= timestamp '${stamp(start)}' and ts < ${end ? `timestamp '${stamp(end)}'` : 'now()'}${f.host
      ? ` and host = ${quoted(f.host)}` : ''}` };
  return html`
    <${Panel} title="All tiers at that time" aside=${html`<span
      class="aside">10 min before to ${end ? '5 min after' : 'now'}; one cursor for all</span>`}>
      <div class="all-tiers" data-all-tiers>${CHARTS.map(chart => html`<${TierChart} key=${chart.title} chart=${chart}
        sql=${chart.sql(range)} marks=${marks} group=${f.finding_id} span=${[start, end ?? Date.now()]} every=${end ? 0 : 10_000}
          isOwn=${chart.tiers.includes(f.tier)} />`)}</div>
    <//>`;
}

function TierChart({ chart, sql, marks, group, span, every, isOwn }) {
  const loaded = useSql(sql, { every, limit: 5000 });
  return html`
    <section class=${isOwn ? 'is-own' : ''} aria-label=${chart.title}>
      <h3>${chart.title}<${OpenSql} sql=${sql} isChart /></h3>
      <${States} loaded=${loaded} lines=${2} isEmpty=${d => !d.rows.length || !canChart(d)} empty=${chart.empty}>
        ${answer => html`<${Chart} answer=${answer} height=${130} marks=${marks} group=${group} span=${span} />`}
      <//>
    </section>`;
}

const stamp = millis => new Date(millis).toISOString();

/** @typedef {{bin: string, seconds: number, where: string}} Range */
/** @type {{title: string, tiers: string[], empty: string, sql: (range: Range) => string}[]} */
const CHARTS = [
  { title: 'Client: sending to clients', tiers: ['client'], empty: 'No requests in this period.',
    sql: r => `select ${r.bin} as ts, ${p(0.5, TO_CLIENT)} as p50_seconds, ${p(0.95, TO_CLIENT)} as p95_seconds
from proxy_request where ${r.where} group by 1 order by 1` },
  { title: 'Edge and proxy: requests and 5xx', tiers: ['edge', 'proxy'], empty: 'No requests in this period.',
    sql: r => `select ${r.bin} as ts, count(*) / ${r.seconds}.0 as requests_per_second,
  count(*) filter (where http_response_status_code >= 500) / ${r.seconds}.0 as errors_per_second
from proxy_request where ${r.where} group by 1 order by 1` },
  { title: 'Application: connecting and first byte, p95', tiers: ['app'], empty: 'No proxied requests in this period.',
    sql: r => `select ${r.bin} as ts, ${p(0.95, 'upstream_connect_seconds')} as connect_seconds, ${p(0.95, IN_APP)} as first_byte_seconds
from proxy_request where upstream_header_seconds is not null and ${r.where} group by 1 order by 1` },
  { title: 'Accept queues', tiers: ['app', 'proxy', 'db'], empty: 'Accept queues were empty.',
    sql: r => `select ${r.bin} as ts, concat(coalesce(process_name, 'unknown'), ' :', server_port) as listener, max(accept_queue_length) as accept_queue_length
from listener where accept_queue_length > 0 and ${r.where} group by 1, 2 order by 1, 2` },
  { title: 'Database: connections and lock waits', tiers: ['db'], empty: 'No databases probed (`[[databases]]`).',
    sql: r => `select ${r.bin} as ts, server_address, max(connections) as connections, max(waiting_on_lock) as waiting_on_lock
from db_server where ${r.where} group by 1, 2 order by 1, 2` },
  { title: 'Disk: time per operation', tiers: ['disk'], empty: 'No disk activity.', sql: r => `with sample as (
  select ${r.bin} as bin, device, max(reads_total + writes_total) as done, max(read_seconds_total + write_seconds_total) as spent
  from disk_stat where not is_partition and ${r.where} group by 1, 2
), step as (
  select bin, device, done - lag(done) over (partition by device order by bin) as done, spent - lag(spent) over (partition by device order by bin) as spent from sample
)
select bin as ts, device, spent / done as await_seconds from step where done > 0 and spent >= 0 order by 1, 2` },
  { title: 'Kernel: drops, overflows, retransmissions', tiers: ['kernel', 'wire'], empty: 'No counter rose.',
    sql: r => `select ${r.bin} as ts, counter, sum(increase) as increase from tcp_stat
where counter in ('ListenOverflows', 'TCPTimeouts', 'RetransSegs', 'TCPSynRetrans', 'TCPReqQFullDrop', 'RcvbufErrors') and ${r.where} group by 1, 2 order by 1, 2` },
  { title: 'Host: stalls (PSI)', tiers: ['host'], empty: 'No data for this host.',
    sql: r => `select ${r.bin} as ts, resource, max(some_avg10_ratio) as some_ratio from pressure where cgroup = '/' and ${r.where} group by 1, 2 order by 1, 2` },
];
