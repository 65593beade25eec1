// @ts-check
// Findings: open and past ones, and the rules behind them.
import { html } from '../vendor/preact-htm.js';
import { useApi, useTick } from '../hooks.js';
import { ago, duration, time } from '../format.js';
import { link, useRoute } from '../router.js';
import { Badge, Icon } from '../parts/icon.js';
import { Panel, States } from '../parts/panel.js';
import { Finding } from './finding.js';
import { Rules } from './rules.js';

const TABS = [['open', 'Open'], ['all', 'Past and open'], ['rules', 'Rules']];
const SQL = `select ts, state, class, tier, rule, subject, summary, host, started_ts, fired_ts, resolved_ts, finding_id
from finding order by ts desc limit 200`;

export function Findings() {
  const { params, argument } = useRoute();
  if (argument) return html`<${Finding} key=${argument} id=${argument} />`;
  const tab = params.show ?? 'open';
  return html`
    <nav class="tabs" aria-label="findings">${TABS.map(([id, label]) => html`<a key=${id}
      href=${link('findings', { show: id === 'open' ? '' : id })} aria-current=${id === tab ? 'page' : undefined}>${label}</a>`)}</nav>
    ${tab === 'rules' ? html`<${Rules} />` : html`<${List} key=${tab} state=${tab} host=${params.host} />`}`;
}

function List({ state, host }) {
  useTick(5_000);
  const loaded = useApi(`/api/findings?state=${state}&limit=500`, 3_000);
  const empty = state === 'open'
    ? html`<p class="calm"><${Icon} name="ok" /><b>No open findings.</b></p><p>The <a
      href=${link('findings', { show: 'rules' })}>rules</a> run every few seconds. Earlier findings are under <a
        href=${link('findings', { show: 'all' })}>past and open</a>.</p>`
    : html`<p><b>No findings yet.</b></p><p>See the <a href=${link('findings', { show: 'rules' })}>rules</a> that look for it.</p>`;
  const shown = data => data.findings.filter(f => !host || !f.host || f.host === host);
  return html`
    <${Panel} title=${state === 'open' ? 'Open findings' : 'Past and open findings'} sql=${SQL}
      aside=${html`<span class="aside">${state === 'open' ? 'worst first' : 'newest first'}</span>`}>
      <${States} loaded=${loaded} isEmpty=${d => !shown(d).length} empty=${empty}>
        ${data => html`<div class="scroll"><table class="list findings"><thead><tr><th scope="col">state</th><th scope="col">tier</th><th
          scope="col">what</th><th scope="col">where</th><th scope="col">since (UTC)</th><th scope="col">lasted</th></tr></thead>
          <tbody>${sorted(shown(data), state).map(f => html`<${Row} key=${f.finding_id} f=${f} />`)}</tbody></table></div>`}
      <//>
    <//>`;
}

const ORDER = { page: 0, mail: 1, note: 2 };
const weight = f => (f.state === 'firing' ? 0 : 10) + (ORDER[f.class] ?? 5);
/** Worst first; a symptom stands below its root. */
function sorted(findings, state) {
  if (state !== 'open') return findings;
  const ids = new Set(findings.map(f => f.finding_id));
  const isSymptom = f => ids.has(f.cause_finding_id);
  const byWeight = list => list.sort((a, b) => weight(a) - weight(b) || b.started_ts.localeCompare(a.started_ts));
  const roots = byWeight(findings.filter(f => !isSymptom(f)));
  return roots.flatMap(root => [root, ...byWeight(findings.filter(f => isSymptom(f) && f.cause_finding_id === root.finding_id))]);
}

function Row({ f }) {
  const href = link('findings', {}, f.finding_id);
  const end = f.resolved_ts ? Date.parse(f.resolved_ts) : Date.now();
  return html`
    <tr class=${`finding-row is-${f.state} is-${f.class}${f.cause_rule ? ' is-symptom' : ''}`} data-row tabindex="-1"
      onClick=${() => { location.hash = href; }} onKeyDown=${e => { if (e.key === 'Enter') location.hash = href; }}>
      <td><${Badge} finding=${f} /></td><td>${f.tier}</td>
      <td><a href=${href}>${f.summary || f.subject}</a><small>${f.rule}${f.cause_rule ? `, a symptom of ${f.cause_rule}` : ''}</small></td>
      <td>${f.subject}${f.host ? html`<small>${f.host}</small>` : ''}</td>
      <td class="mono" title=${f.started_ts}>${time(f.started_ts, { digits: 0 })}<small>${ago(f.started_ts)}</small></td>
      <td class="mono">${duration(Math.max(0, Math.round((end - Date.parse(f.started_ts)) / 1000)))}${f.resolved_ts ? '' : ' so far'}</td>
    </tr>`;
}
