// @ts-check
// One host on one page: system, findings, processes, load and settings.
import { html } from '../vendor/preact-htm.js';
import { objects } from '../api.js';
import { useApi, useConnection, useSql } from '../hooks.js';
import { ago, exact, value } from '../format.js';
import { link, useRoute } from '../router.js';
import { Badge, Icon } from '../parts/icon.js';
import { Empty, Panel, States } from '../parts/panel.js';
import { Detail } from './tier.js';
import { DETAILS } from './tier_details.js';
import { scoped } from './tier_sql.js';

const FACTS = `select kernel_version, os_name, architecture, cpu_count, memory_bytes, boot_ts, agent_version, addresses
from host_info where ts > now() - interval '1 day'$scope order by ts desc limit 1`;

/** Questions that only a host has. @type {import('./tier_details.js').Detail[]} */
const OWN = [
  { title: 'Listeners', over: 'now', empty: 'No listeners.',
    sql: `select netns, server_address, server_port, last_value(process_name order by ts) as process_name, last_value(cgroup order by ts) as cgroup,
  last_value(accept_queue_length order by ts) as accept_queue_length, max(accept_queue_length) as accept_queue_length_max, last_value(accept_queue_limit order by ts) as accept_queue_limit
from listener where ts > now() - interval '15 minutes'$scope group by netns, server_address, server_port having max(ts) > now() - interval '15 seconds' order by netns, server_port` },
  { title: 'Serving processes',
    sql: `select process_name, process_id, max(threads) as threads, max(cpu_seconds_total) - min(cpu_seconds_total) as cpu_seconds, max(resident_bytes) as resident_bytes,
  max(open_files) as open_files, min(open_files_limit) as open_files_limit, sum(blocked_samples) as blocked_samples
from process_stat where ts > now() - interval '15 minutes'$scope group by process_name, process_id order by cpu_seconds desc nulls last limit 50` },
  { title: 'Non-default settings', over: 'newest', empty: 'No settings in configuration files.',
    sql: `select netns, name, last_value(value order by ts) as value, last_value(set_in order by ts) as set_in
from sysctl where ts > now() - interval '2 hours'$scope and set_in is not null group by netns, name order by name, netns` },
];

/** What other views show of a tier, for this host. */
const SHARED = [
  ...DETAILS.host.filter(d => d.title !== 'This machine type'),
  ...DETAILS.disk,
  ...DETAILS.kernel.filter(d => ['Sockets', 'Network devices', 'Kernel messages'].includes(d.title)),
];

export function Host() {
  const { argument } = useRoute();
  const { status } = useConnection();
  const hosts = (status?.hosts ?? []).map(h => h.host);
  const host = argument || status?.host || hosts[0] || '';
  const findings = useApi('/api/findings?state=all&limit=500', 10_000);
  const facts = useSql(host ? scoped(FACTS, host) : null, { every: 60_000 });
  const mine = (findings.data?.findings ?? []).filter(f => f.host === host).slice(0, 12);
  if (status && !hosts.includes(host)) return html`<section class="panel"><${Empty}>Unknown host <code>${host}
    </code>. Known are ${hosts.map(h => html` <a key=${h} href=${link('host', {}, h)}>${h}</a>`)}<//></section>`;
  const newest = status?.hosts?.find(h => h.host === host)?.last_ts;
  return html`
    <div class="host-page" data-host=${host}>
      <header class="host-head"><h1>${host}</h1>${newest && html`<span class="aside">newest row ${ago(newest)}</span>`}
        ${hosts.length > 1 && html`<nav class="tabs" aria-label="hosts">
          ${hosts.map(h => html`<a key=${h} href=${link('host', {}, h)} aria-current=${h === host ? 'page' : undefined}>${h}</a>`)}</nav>`}
            </header>
      <${Panel} title="System" sql=${scoped(FACTS, host)}>
        <${States} loaded=${facts} lines=${2} isEmpty=${d => !d.rows.length} empty="Not reported yet; hosts report within an hour.">
          ${answer => { const row = objects(answer)[0]; return html`<dl class="evidence">
            ${answer.columns.map(c => html`<div key=${c.name}><dt>${c.name.replaceAll('_', ' ')}</dt><dd title=${exact(row[c.name], c)}>
              ${value(row[c.name], c)}</dd></div>`)}</dl>`; }}
        <//>
      <//>
      <section class="panel" aria-label="findings of this host"><header><h2>Findings</h2><span class="aside">open and past</span></header>
        ${!mine.length ? html`<${Empty}>No findings on this host.<//>` : html`<ul class="tier-findings is-wide">
          ${mine.map(f => html`<li key=${f.finding_id}><a href=${link('findings', {}, f.finding_id)}><${Badge} finding=${f} /> ${f.summary}
            </a></li>`)}</ul>`}</section>
      <div class="details">${[...OWN, ...SHARED].map(d => html`<${Detail} key=${d.title} detail=${d} host=${host} />`)}</div>
      <p class="back"><a href=${link('overview', { host })}><${Icon} name="left" />Overview</a></p>
    </div>`;
}
