// @ts-check
// Incidents: open ones first, past ones on request; one row each, with what it is about and the person that has it.
import { html } from '../vendor/preact-htm.js';
import { useApi, useTick } from '../hooks.js';
import { ago, count, time } from '../format.js';
import { link, useRoute } from '../router.js';
import { ClassWord, Icon, IncidentState } from '../parts/icon.js';
import { Panel, States } from '../parts/panel.js';
import { Incident } from './incident.js';
import { NoticeHint } from './notices.js';

const TABS = [['open', 'Open'], ['all', 'Past and open']];
const SQL = `select ts, incident_id, state, class, title, findings, hosts, opened_ts, acked_by, resolved_ts, change
from incident_now order by ts desc limit 200`;

export function Incidents() {
  const { params, argument } = useRoute();
  if (argument) return html`<${Incident} key=${argument} id=${argument} />`;
  const tab = params.show === 'all' ? 'all' : 'open';
  return html`
    <nav class="tabs" aria-label="incidents">${TABS.map(([id, label]) => html`<a key=${id}
      href=${link('incidents', { show: id === 'open' ? '' : id, host: params.host })} aria-current=${id === tab ? 'page' : undefined}>${label}
        </a>`)}</nav>
    <${List} key=${tab} state=${tab} host=${params.host} />`;
}

function List({ state, host }) {
  useTick(5_000);
  const loaded = useApi(`/api/incidents?state=${state}&limit=500`, 3_000);
  const empty = html`
    ${state === 'open' ? html`<p class="calm"><${Icon} name="ok" /><b>No open incidents.</b></p><p><span>Earlier ones are under
      ${' '}<a href=${link('incidents', { show: 'all' })}>past and open</a>.</span></p>`
      : html`<p><b>No incidents yet.</b></p><p>An incident is a root finding with its symptoms.</p>`}
    <${NoticeHint} />`;
  const shown = data => data.incidents.filter(i => !host || !i.host || i.host === host);
  return html`
    <${Panel} title=${state === 'open' ? 'Open incidents' : 'Past and open incidents'} sql=${SQL}
      aside=${html`<span class="aside">${state === 'open' ? 'unacknowledged and worst first' : 'open ones first'}</span>`}>
      <${States} loaded=${loaded} isEmpty=${d => !shown(d).length} empty=${empty}>
        ${data => html`<div class="scroll"><table class="list incidents"><thead><tr><th scope="col">class</th><th
          scope="col">incident</th><th scope="col">state</th><th scope="col" class="number wide">findings</th><th scope="col"
            class="number wide">hosts</th><th scope="col" class="wide">opened (UTC)</th><th scope="col" class="wide">acknowledged by</th>
              </tr></thead>
          <tbody>${sorted(shown(data)).map(i => html`<${Row} key=${i.incident_id} i=${i} />`)}</tbody></table></div>`}
      <//>
    <//>`;
}

const CLASSES = { page: 0, mail: 1, note: 2 };
const STATES = { open: 0, acked: 10 };
const weight = i => (STATES[i.state] ?? 20) + (i.state in STATES ? CLASSES[i.class] ?? 5 : 0);
const newest = i => (i.state in STATES ? i.opened_ts : i.ts);
/** Open before acknowledged before past; the worst, then the newest first. */
const sorted = incidents => [...incidents].sort((a, b) => weight(a) - weight(b) || newest(b).localeCompare(newest(a)));

function Row({ i }) {
  const href = link('incidents', {}, i.incident_id);
  const about = `${count(i.finding_count)} ${i.finding_count === 1 ? 'finding' : 'findings'} on ${count(i.host_count)} ${i.host_count === 1 ? 'host' : 'hosts'}`;
  return html`
    <tr class=${`incident-row is-${i.state}`} data-row tabindex="-1" data-incident=${i.incident_id}
      onClick=${() => { location.hash = href; }} onKeyDown=${e => { if (e.key === 'Enter') location.hash = href; }}>
      <td><${ClassWord} name=${i.class} /></td>
      <td><a href=${href}>${i.title}</a><small>${i.incident_id}, ${i.root_rule}</small><small
        class="narrow">${about}, opened ${ago(i.opened_ts)}${i.acked_by ? `, acknowledged by ${i.acked_by}` : ''}</small></td>
      <td><${IncidentState} incident=${i} /></td>
      <td class="number wide">${count(i.finding_count)}</td><td class="number wide">${count(i.host_count)}</td>
      <td class="mono wide" title=${i.opened_ts}>${time(i.opened_ts, { digits: 0 })}<small>${ago(i.opened_ts)}</small></td>
      <td class="wide">${i.acked_by ?? '–'}</td>
    </tr>`;
}
