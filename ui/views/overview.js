// @ts-check
// The request path on one page: tiers from left to right, the infrastructure below them, and open problems.
import { html } from '../vendor/preact-htm.js';
import { useApi, useConnection, useSql } from '../hooks.js';
import { objects } from '../api.js';
import { ago, duration, exact, value } from '../format.js';
import { link, useRoute } from '../router.js';
import { Badge, Icon } from '../parts/icon.js';
import { OpenSql, Panel, Problem, Skeleton, States } from '../parts/panel.js';
import { Spark } from '../parts/spark.js';
import { Watched } from './watched.js';
import { scoped } from './tier_sql.js';
import { LISTENER_SQL, TIERS, TIME_SQL } from './tiers.js';
import { TIERS_BELOW } from './tiers_below.js';

const EVERY = 5_000;

export function Overview() {
  const { params } = useRoute();
  const host = params.host ?? '';
  const { status } = useConnection();
  const findings = useApi('/api/findings', EVERY);
  const listeners = useSql(scoped(LISTENER_SQL, host), { every: EVERY });
  const all = findings.data?.findings ?? [];
  const open = all.filter(f => !host || !f.host || f.host === host);
  const queues = objects(listeners.data);
  const card = tier => html`<${TierCard} key=${tier.id} tier=${tier} host=${host} queues=${queues.filter(q => q.tier === tier.queues)}
    isKnown=${findings.data !== undefined} findings=${open.filter(f => tier.tiers.includes(f.tier))} all=${open} />`;
  return html`
    <div class="overview">
      <${Verdict} findings=${findings} open=${open} words=${host ? null : findings.data?.verdict} />
      <${TimeBar} host=${host} />
      <div class="flow" role="list" aria-label="tiers, from the visitor to the disk">${TIERS.map(card)}</div>
      <div class="below" role="list" aria-label="infrastructure below all tiers">${TIERS_BELOW.map(card)}</div>
      <${Listeners} loaded=${listeners} sql=${scoped(LISTENER_SQL, host)} />
      <${Watched} sources=${status?.log_sources} />
    </div>`;
}

/** The first sentence of the page: the worst finding, or all clear. */
function Verdict({ findings, open, words }) {
  if (findings.data === undefined) return findings.error ? html`<${Problem} error=${findings.error} reload=${findings.reload}
    title="cannot read findings" />` : html`<${Skeleton} lines=${1} />`;
  const firing = open.filter(f => f.state === 'firing').sort((a, b) => rank(a) - rank(b));
  const serious = firing.filter(f => f.class !== 'note');
  if (!serious.length) {
    if (findings.error) return html`<p class="verdict verdict-ok is-old"><${Icon} name="pending" /><span>
      <b>All clear</b> at the last response, ${ago(findings.at)}.</span></p>`;
    return html`<p class="verdict verdict-ok"><${Icon} name="ok" /><span>
      <b>All clear.</b> No page or mail${firing.length ? html`; <a href=${link('findings')}>
        ${firing.length} ${firing.length === 1 ? 'note' : 'notes'}</a>` : ''}.</span></p>`;
  }
  const worst = serious[0];
  return html`
    <p class=${`verdict verdict-${worst.class}${findings.error ? ' is-old' : ''}`} role="status"><${Icon} name=${worst.class} />
      <span><b>${titleOf(worst.tier)}:</b> <a href=${link('findings', {}, worst.finding_id)}>${worst.summary}</a>
      ${serious.length > 1 && html` <a class="more" href=${link('findings')}>and ${serious.length - 1} more</a>`}</span></p>
    ${words && html`<p class="verdict-words">${words}</p>`}`;
}

/** The symptoms of a root, folded below it. */
const Symptoms = ({ symptoms }) => symptoms.length > 0 && html`
  <details class="symptoms"><summary>${symptoms.length} ${symptoms.length === 1 ? 'symptom' : 'symptoms'}</summary>
    <ul>${symptoms.map(f => html`<li key=${f.finding_id}><a href=${link('findings', {}, f.finding_id)}>${f.tier}: ${f.summary}</a></li>`)}
      </ul></details>`;

/** The open finding that this one is a symptom of. */
const rootOf = (f, all) => all.find(other => f.cause_finding_id && other.finding_id === f.cause_finding_id);
const weight = f => rank(f) + (f.state === 'firing' ? 0 : 10);
const titleOf = tier => [...TIERS, ...TIERS_BELOW].find(t => t.tiers.includes(tier))?.title ?? tier;
const rank = f => ['page', 'mail', 'note'].indexOf(f.class);

const PARTS = [['client', 'to the client'], ['queue', 'own queue'], ['connect', 'connecting'], ['app', 'application'],
  ['body', 'rest of the answer']];

/** Where requests' time went: one bar whose parts are the tiers. */
function TimeBar({ host }) {
  const sql = scoped(TIME_SQL, host);
  const loaded = useSql(sql, { every: EVERY });
  const place = loaded.data?.rows.length ? `, measured at the ${objects(loaded.data)[0].tier}` : '';
  return html`
    <${Panel} title="Where a request's time goes" sql=${sql}
      aside=${html`<span class="aside">mean per request, last minute${place}</span>`}>
      <${States} loaded=${loaded} lines=${1} isEmpty=${d => !d.rows.length}
        empty="No requests in the last minute. They appear as soon as nginx, HAProxy or Apache log one, or weir edge serves one.">
        ${answer => {
          const row = objects(answer)[0];
          const parts = PARTS.filter(([name]) => row[`${name}_seconds`] > 0);
          const shown = parts.length ? parts : PARTS;
          const mean = name => row[`${name}_seconds`] ?? 0;
          return html`
            <div class="timebar" aria-hidden="true">${shown.map(([name]) => html`<i key=${name} class=${`part-${name}`}
              style=${{ flexGrow: String(Math.round(mean(name) * 1e6)) }} />`)}</div>
            <dl class="timekeys">${shown.map(([name, label]) => html`
              <div key=${name}><dt><i class=${`part-${name}`} />${label}</dt><dd title=${`mean ${mean(name)} s`}>${duration(mean(name))}
                <small>p95 ${value(row[`${name}_seconds_p95`], { name: 'seconds' })}</small></dd></div>`)}</dl>`;
        }}
      <//>
    <//>`;
}

function TierCard({ tier, host, isKnown, findings, all, queues }) {
  const sql = scoped(tier.sql, host);
  const sparkSql = scoped(tier.spark.sql, host);
  const numbers = useSql(sql, { every: EVERY });
  const spark = useSql(sparkSql, { every: EVERY * 3 });
  const firing = findings.filter(f => f.state === 'firing');
  const worst = [...firing].sort((a, b) => rank(a) - rank(b))[0];
  const now = Date.now();
  const roots = findings.filter(f => !rootOf(f, all));
  const symptoms = f => all.filter(other => rootOf(other, all) === f);
  return html`
    <section class=${`tier tier-${worst?.class ?? 'ok'}`} role="listitem" aria-label=${tier.title} data-tier=${tier.id}>
      <header><h2><a href=${link('tier', { host }, tier.id)}>${tier.title}</a></h2>
        ${isKnown && html`<span class="tier-state"><${Icon} name=${worst?.class ?? (findings.length ? 'pending' : 'ok')} />
          ${worst ? `${firing.length} firing` : findings.length ? `${findings.length} pending` : 'no finding'}</span>`}</header>
      <p class="tier-of">${tier.of}</p>
      <${States} loaded=${numbers} lines=${4} isEmpty=${d => !d.rows.length} empty=${tier.empty}>
        ${answer => html`<${Figures} answer=${answer} figures=${tier.figures} />`}
      <//>
      ${spark.data?.rows.length > 1 && html`<a class="spark-link" href=${link('sql', { q: sparkSql, chart: 1 })}
        aria-label=${`${tier.spark.label}: open the chart's query`}>
        <${Spark} answer=${spark.data} label=${`${tier.spark.label}, 15 min`} from=${now - 900_000} to=${now} /></a>`}
      ${queues.length > 0 && html`<ul class="queues" aria-label="accept queues">
        ${queues.slice(0, 3).map(q => html`<li key=${key(q)}><${Queue} queue=${q} /></li>`)}</ul>`}
      ${roots.length > 0 && html`<ul class="tier-findings">${[...roots].sort((a, b) => weight(a) - weight(b)).slice(0, 4).map(f => html`
        <li key=${f.finding_id}><a href=${link('findings', {}, f.finding_id)}><${Badge} finding=${f} /> ${f.summary}</a><${Symptoms}
          symptoms=${symptoms(f)} /></li>`)}</ul>`}
      ${findings.length > roots.length && html`<p class="tier-symptoms">
        ${findings.length - roots.length} ${findings.length - roots.length === 1 ? 'symptom' : 'symptoms'} of what hurts elsewhere</p>`}
      <footer><span>last minute</span><${OpenSql} sql=${sql} /></footer>
    </section>`;
}

function Figures({ answer, figures }) {
  const columns = Object.fromEntries(answer.columns.map((c, i) => [c.name, { ...c, value: answer.rows[0][i] }]));
  return html`<dl class="figures">${figures.filter(f => columns[f.column]).map(f => {
    const column = columns[f.column];
    return html`<div key=${f.column} class=${column.value === null ? 'is-null' : undefined}><dt>${f.label}</dt><dd
      title=${exact(column.value, column)}>${value(column.value, column)}</dd></div>`;
  })}</dl>`;
}

const key = q => `${q.host} ${q.netns} ${q.server_address} ${q.server_port}`;

/** One accept queue: who, how long of how much, and the longest of the last quarter of an hour. */
const Queue = ({ queue: q }) => html`
  <span class="queue" title=${`longest in 15 min: ${q.accept_queue_length_max} of ${q.accept_queue_limit}`}>
    <span>:${q.server_port} ${q.process_name ?? 'unknown'}</span>
    <meter min="0" max=${q.accept_queue_limit} high=${q.accept_queue_limit * 0.8} value=${q.accept_queue_length}
      aria-label="accept queue" />
    <b>${q.accept_queue_length}/${q.accept_queue_limit}</b>
  </span>`;

function Listeners({ loaded, sql }) {
  return html`
    <${Panel} id="listeners" title="Listeners" sql=${sql} aside=${html`<span
      class="aside">every listening TCP socket, its accept queue now and at its longest in 15 min</span>`}>
      <${States} loaded=${loaded} isEmpty=${d => !d.rows.length}
        empty="No listeners on this host, or the listener collector is not running.">
        ${answer => html`<div class="scroll"><table class="list">
          <thead><tr><th scope="col">address</th><th scope="col">process</th><th scope="col">tier</th><th scope="col">host, namespace</th>
            <th scope="col" class="number">workers</th><th scope="col">accept queue now</th><th scope="col" class="number">longest</th></tr>
              </thead>
          <tbody>${objects(answer).map(q => html`<tr key=${key(q)} data-row tabindex="-1">
            <td class="mono">${q.server_address.includes(':') ? `[${q.server_address}]` : q.server_address}:<b>${q.server_port}</b></td>
            <td>${q.process_name ?? html`<span class="null" title="unknown: run weir as root to see processes">unknown</span>`}</td><td>
              ${q.tier}</td>
            <td>${q.host}${q.netns === 'host' ? '' : `, ${q.netns}`}</td><td class="number">${q.process_count ?? '–'}</td>
            <td><${Queue} queue=${q} /></td>
            <td class="number">${q.fullest_ratio >= 1 ? html`<span class="badge badge-page"><${Icon} name="page" />was full</span> `
              : ''}${q.accept_queue_length_max}</td></tr>`)}</tbody>
        </table></div><p class="foot">${answer.rows.length} listeners, as of ${ago(loaded.at)}</p>`}
      <//>
    <//>`;
}
