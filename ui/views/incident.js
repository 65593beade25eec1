// @ts-check
// One incident: what it is about, its findings, the notices of it, and what changed when.
import { html } from '../vendor/preact-htm.js';
import { useApi, useTick } from '../hooks.js';
import { ago, count, duration, quote, time } from '../format.js';
import { link } from '../router.js';
import { Badge, ClassWord, Icon, IncidentState } from '../parts/icon.js';
import { Empty, Panel, States, prose } from '../parts/panel.js';
import { IncidentActions } from './incident_actions.js';
import { NoticeHint, NoticeTable } from './notices.js';

const many = (number, noun) => `${count(number)} ${noun}${number === 1 ? '' : 's'}`;

/** @param {{id: string}} props */
export function Incident({ id }) {
  useTick(5_000);
  const loaded = useApi(`/api/incidents/${encodeURIComponent(id)}`, 3_000);
  return html`
    <p class="back"><a href=${link('incidents')}><${Icon} name="left" />Incidents</a></p>
    <${States} loaded=${loaded} lines=${8}>${i => html`<${Page} i=${i} reload=${loaded.reload} />`}<//>`;
}

function Page({ i, reload }) {
  const isOpen = i.state === 'open' || i.state === 'acked';
  const firing = i.findings.filter(f => f.state === 'firing').length;
  const end = isOpen || !i.resolved_ts ? Date.now() : Date.parse(i.resolved_ts);
  return html`
    <article class=${`finding is-${i.state === 'open' ? 'firing' : i.state === 'acked' ? 'pending' : 'resolved'} is-${i.class}`}
      aria-labelledby="incident-title">
      <header class="finding-head">
        <p><${IncidentState} incident=${i} /><${ClassWord} name=${i.class} /><code>${i.root_rule}</code><code>${i.incident_id}</code></p>
        <h1 id="incident-title">${i.title}</h1>
        <dl class="facts">
          <div><dt>findings</dt><dd>${isOpen ? `${count(firing)} firing on ${many(i.host_count, 'host')}` : count(i.findings.length)}</dd></div>
          ${i.host && html`<div><dt>root on</dt><dd><a href=${link('host', {}, i.host)}>${i.host}</a></dd></div>`}
          <div><dt>opened</dt><dd title=${i.opened_ts}>${time(i.opened_ts, { digits: 0, isLong: true })} UTC, ${ago(i.opened_ts)}</dd></div>
          ${i.state !== 'merged' && html`<div><dt>${isOpen ? 'lasts' : 'lasted'}</dt><dd>
            ${duration(Math.max(0, Math.round((end - Date.parse(i.opened_ts)) / 1000)))}</dd></div>`}
          ${i.acked_by && html`<div><dt>acknowledged by</dt><dd>${i.acked_by}</dd></div>`}
          ${i.merged_into && html`<div><dt>merged into</dt><dd><a href=${link('incidents', {}, i.merged_into)}>${i.merged_into}</a></dd></div>`}
        </dl>
        ${isOpen && html`<${IncidentActions} i=${i} reload=${reload} />`}
      </header>
      <${Findings} i=${i} />
      <${Panel} title="Notices" sql=${`select * from notice_now where incident_id = ${quote(i.incident_id)} order by ts`}
        aside=${html`<span class="aside">messages to receivers, newest first</span>`}>
        ${i.notices.length ? html`<${NoticeTable} notices=${[...i.notices].reverse()} />`
          : html`<${Empty}>No notice of this incident.<${NoticeHint} /><//>`}
      <//>
      <${Panel} title="History" sql=${`select ts, state, class, change from incident where incident_id = ${quote(i.incident_id)} order by ts`}>
        <ol class="changes" aria-label="history">${i.history.map((h, n) => html`<li key=${`${h.ts} ${n}`}><time datetime=${h.ts}
          title=${h.ts}>${time(h.ts, { digits: 0 })}</time><span>${h.change}</span><${ClassWord} name=${h.class} /></li>`)}</ol>
      <//>
    </article>`;
}

const Findings = ({ i }) => html`
  <section class="panel" aria-label="Findings"><header><h2>Findings</h2><span class="aside">the root and its symptoms</span></header>
    ${!i.findings.length ? html`<${Empty}>Its findings are no longer stored.<//>` : html`
    <div class="scroll"><table class="list incident-findings"><thead><tr><th scope="col">state</th><th scope="col">what</th><th
      scope="col" class="wide">where</th><th scope="col" class="wide">since (UTC)</th></tr></thead>
      <tbody>${i.findings.map(f => html`<${FindingRow} key=${f.finding_id} f=${f} isRoot=${f.finding_id === i.root_finding_id} />`)}
        </tbody></table></div>`}
  </section>`;

function FindingRow({ f, isRoot }) {
  const href = link('findings', {}, f.finding_id);
  return html`
    <tr class=${`finding-row is-${f.state}`} data-row tabindex="-1"
      onClick=${() => { location.hash = href; }} onKeyDown=${e => { if (e.key === 'Enter') location.hash = href; }}>
      <td><${Badge} finding=${f} /></td>
      <td><a href=${href}>${prose(f.summary || f.subject)}</a><small>${f.rule}, ${isRoot ? 'the root' : 'a symptom'}</small><small class="narrow">
        ${f.subject}${f.host ? ` on ${f.host}` : ''}, since ${time(f.started_ts, { digits: 0 })}</small></td>
      <td class="wide">${f.subject}${f.host ? html`<small>${f.host}</small>` : ''}</td>
      <td class="mono wide" title=${f.started_ts}>${time(f.started_ts, { digits: 0 })}<small>${ago(f.started_ts)}</small></td>
    </tr>`;
}
