// @ts-check
// Edge: who listens, where requests go and how well that is, who visits at this moment, and one request from the browser down.
import { html, useState } from '../vendor/preact-htm.js';
import { objects, setWeight } from '../api.js';
import { useApi, useSql } from '../hooks.js';
import { count, duration, ratio, size, time } from '../format.js';
import { setParams, useRoute } from '../router.js';
import { Chart } from '../parts/chart.js';
import { Icon } from '../parts/icon.js';
import { Panel, Problem, States } from '../parts/panel.js';
import { Certificates } from './edge_certificates.js';
import { Haproxies } from './edge_haproxy.js';
import { Waterfall } from './edge_request.js';
import { scoped } from './tier_sql.js';
import * as questions from './edge_sql.js';

const EVERY = 5_000;
const perSecond = x => (x === null ? '–' : `${count(Number(x.toPrecision(3)))}/s`);
const bytes = x => `${size(x ?? 0)}/s`;
const WORDS = { up: 'up', slow_start: 'starts slowly', check_failed: 'fails checks', ejected: 'out: failures', stalled: 'out: hangs',
  unresolved: 'out: name unknown',
  draining: 'draining', out: 'out' };
const NO_EDGE = html`<p>No edge reported in last minute. Start one: <code>weir edge --listen 0.0.0.0:80 --backend 10.0.0.5:8080</code>, or set <code>edge.listen</code> in <code>weir.toml</code>.</p>`;

export function Edge() {
  const { params } = useRoute();
  const host = params.host ?? '';
  const ask = sql => scoped(sql, host);
  // The edge of this very weir, fresher than its rows; a hub has none.
  const here = useApi('/api/edge', 2_000);
  const listeners = useSql(ask(questions.LISTENERS), { every: EVERY });
  const bandwidth = useSql(ask(questions.BANDWIDTH), { every: EVERY * 3 });
  return html`
    <div class="edge">
      <${Backends} host=${host} here=${here} />
      <${Haproxies} />
      <${Certificates} host=${host} />
      <${Panel} title="Listeners" sql=${ask(questions.LISTENERS)} aside=${html`<span class="aside">last minute</span>`}>
        <${States} loaded=${listeners} isEmpty=${d => !d.rows.length} empty=${NO_EDGE}>
          ${data => html`<${Listeners} rows=${objects(data)} />`}<//>
      <//>
      <${Panel} title="Bandwidth" sql=${ask(questions.BANDWIDTH)} isChart=${true}
        aside=${html`<span class="aside">all listeners, with what became no request; TLS as what it carried</span>`}>
        <${States} loaded=${bandwidth} lines=${4} isEmpty=${d => d.rows.length < 2}
          empty="Not enough rows yet: listeners report every 10 s.">${data => html`<${Chart} answer=${data} height=${160} />`}<//>
      <//>
      <${Visitors} ask=${ask} />
      <${Requests} ask=${ask} chosen=${params.request} />
    </div>`;
}

function Listeners({ rows }) {
  return html`<div class="scroll"><table class="list">
    <thead><tr><th scope="col">address</th><th scope="col">host</th><th scope="col" class="number">open</th><th scope="col"
      class="number">new</th><th scope="col" class="number">requests</th><th scope="col" class="number">refused</th><th scope="col"
        class="number">received</th><th scope="col" class="number">sent</th><th scope="col" class="number">backlog</th></tr></thead>
    <tbody>${rows.map(l => html`<tr key=${`${l.host} ${l.listener}`} data-row tabindex="-1">
      <td class="mono"><b>${l.listener}</b>${l.is_tls ? ' TLS' : ''}</td><td>${l.host}</td><td class="number">${count(l.connections)}</td>
        <td class="number">${perSecond(l.accepted_per_second)}</td>
      <td class="number">${perSecond(l.requests_per_second)}</td><td class="number">${perSecond(l.refused_per_second)}</td><td
        class="number">${bytes(l.received_bytes_per_second)}</td><td class="number">${bytes(l.sent_bytes_per_second)}</td>
      <td class="number" title=${l.backlog_limit !== null && l.backlog_limit < l.backlog
        ? `the kernel cuts ${l.backlog} to net.core.somaxconn` : ''}>${Math.min(l.backlog, l.backlog_limit ?? l.backlog)}</td></tr>`)}
          </tbody>
  </table></div>`;
}

/** Backends as rows tell, over which lies what the edge of this weir says at this moment. */
function Backends({ host, here }) {
  const sql = scoped(questions.BACKENDS, host);
  const loaded = useSql(sql, { every: EVERY });
  const health = useSql(scoped(questions.HEALTH, host), { every: EVERY * 3 });
  const own = here.data?.is_here && !here.error ? here.data : null;
  const fresh = b => (own && b.host === own.host ? own.backends.find(o => o.backend === b.backend && o.pool === b.pool) : null);
  const history = objects(health.data);
  return html`
    <${Panel} title="Backends" sql=${sql} aside=${html`<span
      class="aside">rates of last minute; health of the last half hour, newest at the right</span>`}>
      <${States} loaded=${loaded} lines=${5} isEmpty=${d => !d.rows.length} empty=${NO_EDGE}>${data => html`
        <div class="scroll"><table class="list">
          <thead><tr><th scope="col">backend</th><th scope="col">state</th><th scope="col">share</th><th scope="col"
            class="number">requests</th><th scope="col" class="number">in flight</th><th scope="col" class="number">latency</th><th
              scope="col" class="number">failures</th><th scope="col" class="number">bytes</th><th scope="col">health</th><th
                scope="col">weight</th></tr></thead>
          <tbody>${objects(data).filter(b => !own || b.host !== own.host || fresh(b)).map(b => html`<${Backend}
            key=${`${b.host} ${b.pool} ${b.backend}`} row=${{ ...b, ...fresh(b) }}
              history=${history.filter(h => h.host === b.host && h.backend === b.backend)} control=${fresh(b) ? own : null}
                reload=${here.reload} />`)}</tbody>
        </table></div>
        ${own && !own.may_change && html`<p
          class="foot">Weights are changed here with a login of scope <code>change</code>; on the edge's host <code>weir edge weight BACKEND 0</code> drains one.</p>`}`}
      <//>
    <//>`;
}

function Backend({ row: b, history, control, reload }) {
  const isOut = ['ejected', 'stalled', 'check_failed', 'unresolved'].includes(b.state);
  return html`<tr data-row data-backend=${b.backend} tabindex="-1">
    <td class="mono"><b>${b.backend}</b><span class="aside">${b.pool ? ` ${b.pool}` : ''} ${b.host}</span></td>
    <td><span class=${`edge-state is-${isOut ? 'out' : b.state}`} title=${b.reason ?? ''}>${WORDS[b.state] ?? b.state}</span>
      ${!b.is_believed && html` <span class="aside" title="panic mode: too many unhealthy backends, so all get requests">panic</span>`}</td>
    <td><span class="edge-share"><meter min="0" max="1" value=${b.share_ratio ?? 0}
      aria-label="share" /> ${b.share_ratio === null ? '–' : ratio(b.share_ratio)}</span></td>
    <td class="number">${perSecond(b.requests_per_second)}</td><td class="number">
      ${b.in_flight}${b.queued > 0 ? html` <span class="aside">+${b.queued} wait</span>` : ''}</td>
    <td class="number">${b.latency_seconds === null ? '–' : duration(b.latency_seconds)}</td><td class="number">
      ${perSecond(b.failures_per_second)}</td><td class="number">${bytes(b.bytes_per_second)}</td>
    <td><span class="edge-health" role="img" aria-label=${`worst of each minute: ${history.map(h => WORDS[h.state]).join(', ')}`}>
      ${history.map(h => html`<i key=${h.ts} class=${`is-${h.state}`}
        title=${`${time(h.ts, { digits: 0 })} UTC ${WORDS[h.state]}${h.reason ? `: ${h.reason}` : ''}${h.failures > 0
          ? `, ${h.failures} failures` : ''}`} />`)}</span></td>
    <td><${Weight} backend=${b} mayChange=${control?.may_change ?? false} reload=${reload} /></td></tr>`;
}

/** The weight and its controls, each with a confirmation. */
function Weight({ backend, mayChange, reload }) {
  const [wanted, setWanted] = useState(/** @type {number | null} */ (null));
  const [error, setError] = useState(/** @type {any} */ (null));
  if (!mayChange) return html`${backend.weight}`;
  const confirm = async () => {
    const failed = await setWeight(backend.backend, /** @type {number} */ (wanted)).then(() => null, problem => problem);
    setError(failed);
    setWanted(null);
    reload();
  };
  const choose = weight => { setError(null); setWanted(weight); };
  if (wanted !== null) {
    return html`<span class="edge-confirm" role="alertdialog" aria-label="confirm"><b>
      ${wanted === 0 ? `Drain ${backend.backend}?` : `Weight ${wanted}?`}</b>
      <button type="button" class="primary" onClick=${confirm}>Yes</button> <button type="button"
        onClick=${() => setWanted(null)}>No</button></span>`;
  }
  return html`<span class="edge-weight"><input type="number" min="0" max="1000" value=${backend.weight}
    aria-label=${`weight of ${backend.backend}`}
      onChange=${e => { if (e.currentTarget.checkValidity()) choose(Number(e.currentTarget.value)); }} />
    ${backend.weight > 0 ? html`<button type="button" onClick=${() => choose(0)}>Drain</button>` : html`<button type="button"
      onClick=${() => choose(1)}>Take back</button>`}
    ${error && html`<span class="row-error" role="alert"><${Icon} name="mail" />${error.message}</span>`}</span>`;
}

function Visitors({ ask }) {
  const sql = ask(questions.VISITORS);
  const loaded = useSql(sql, { every: 3_000 });
  const over = useSql(ask(questions.VISITORS_OVER_TIME), { every: EVERY * 3 });
  const all = objects(loaded.data).reduce((sum, v) => sum + v.visitors, 0);
  return html`
    <${Panel} title="Clients now" sql=${sql} aside=${html`<span
      class="aside">each beacon counts 15 s; programs that call themselves so are left out</span>`}>
      <${States} loaded=${loaded} isEmpty=${d => !d.rows.length} empty="None: no beacon in the last 15 s.">${data => html`
        <p class="edge-now"><b>${count(all)}</b> ${all === 1 ? 'page is open' : 'pages are open'}</p>
        <div class="scroll"><table class="list visitors"><thead><tr><th scope="col">site</th><th scope="col">page</th><th scope="col"
          class="number">visitors</th><th scope="col" class="number">networks</th></tr></thead>
          <tbody>${objects(data).map(v => html`<tr key=${`${v.site} ${v.page}`} data-row tabindex="-1"><td>${v.site ?? '–'}</td><td
            class="mono">${v.page ?? '–'}</td><td class="number">${count(v.visitors)}</td><td class="number">${count(v.networks)}</td>
              </tr>`)}</tbody></table></div>`}
      <//>
      ${over.data?.rows.length > 1 && html`<${Chart} answer=${over.data} height=${120} />`}
    <//>`;
}

function Requests({ ask, chosen }) {
  const sql = ask(questions.JOINED);
  const loaded = useSql(sql, { every: EVERY * 2 });
  const cell = seconds => (seconds === null ? '–' : duration(seconds));
  return html`
    <${Panel} title="Requests from the browser down" sql=${sql}
      aside=${html`<span class="aside">requests measured by more than one tier, joined by id; last 5 minutes</span>`}>
      <form class="edge-find" onSubmit=${e => { e.preventDefault(); setParams({ request: new FormData(e.currentTarget).get('id') }); }}>
        <label>id of a request <input name="id" value=${chosen ?? ''} size="34" spellcheck=${false} /></label> <button
          type="submit">Show</button></form>
      ${chosen && html`<${Waterfall} id=${chosen} />`}
      <${States} loaded=${loaded} isEmpty=${d => !d.rows.length}
        empty="None. The script weir.js joins a page to the edge's row; a proxy behind the edge joins when it logs X-Request-Id.">
          ${data => html`
        <div class="scroll"><table class="list joined"><thead><tr><th scope="col">time</th><th scope="col">path</th><th scope="col"
          class="number">status</th><th scope="col" class="number">client</th><th scope="col" class="number">edge</th><th scope="col"
            class="number">proxy</th><th scope="col" class="number">app</th></tr></thead>
          <tbody>${objects(data).map(r => html`<tr key=${r.request_id} data-row tabindex="-1"
            class=${r.request_id === chosen ? 'is-open' : ''} onClick=${() => setParams({ request: r.request_id })}
              onKeyDown=${e => { if (e.key === 'Enter') setParams({ request: r.request_id }); }}>
            <td>${time(r.ts, { digits: 0 })}</td><td class="mono">${r.url_path}</td><td class="number">${r.http_response_status_code ?? '–'}
              </td>
            <td class="number">${cell(r.client_seconds)}</td><td class="number">${cell(r.edge_seconds)}</td><td class="number">
              ${cell(r.proxy_seconds)}</td><td class="number">${cell(r.app_seconds)}</td></tr>`)}</tbody></table></div>`}
      <//>
    <//>`;
}
