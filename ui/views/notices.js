// @ts-check
// Notices: messages to receivers, with state and the receiver's answer; and what to do when there is none.
import { html } from '../vendor/preact-htm.js';
import { useApi } from '../hooks.js';
import { ago, count, duration, time } from '../format.js';
import { link } from '../router.js';
import { Icon } from '../parts/icon.js';

// Word, icon and colour of a notice's state.
const LOOKS = { queued: ['pending', 'note'], sending: ['pending', 'note'], sent: ['ok', 'ok'], uncertain: ['mail', 'mail'],
  failed: ['page', 'page'], superseded: ['note', 'note'] };
const HINTS = { uncertain: 'weir ended in between: it may have arrived', superseded: 'a later notice of the incident replaced it' };

/** @param {{notices: any[], hasIncident?: boolean}} props rows of `notice_now`; `hasIncident` adds the link to the incident */
export const NoticeTable = ({ notices, hasIncident = false }) => html`
  <div class="scroll"><table class="list notices"><thead><tr><th scope="col" class="wide">changed (UTC)</th><th scope="col">receiver</th><th
    scope="col">state</th><th scope="col" class="wide">kind</th>${hasIncident && html`<th scope="col" class="wide">incident</th>`}<th
      scope="col" class="wide">person</th><th scope="col" class="number wide">attempts</th><th scope="col" class="number wide">took</th><th
        scope="col">answer</th></tr></thead>
    <tbody>${notices.map(n => html`<${Row} key=${n.notice_id} n=${n} hasIncident=${hasIncident} />`)}</tbody></table></div>`;

function Row({ n, hasIncident }) {
  const [icon, look] = LOOKS[n.state] ?? LOOKS.queued;
  const incident = n.incident_id ? html`<a href=${link('incidents', {}, n.incident_id)}>${n.incident_id}</a>` : '–';
  return html`
    <tr data-row tabindex="-1" data-notice=${n.notice_id}>
      <td class="mono wide" title=${n.ts}>${time(n.ts, { digits: 0 })}<small>${ago(n.ts)}</small></td>
      <td>${n.receiver}<small class="narrow">${n.kind}${n.person ? ` to ${n.person}` : ''}, ${ago(n.ts)}${hasIncident && n.incident_id
        ? html`, ${incident}` : ''}</small></td>
      <td><span class="badge badge-${look}" title=${HINTS[n.state]}><${Icon} name=${icon} />${n.state}</span>${n.is_repeat && html`<small
        title="an earlier attempt may have arrived; the message says so">may be a repeat</small>`}<small
          class="narrow">${count(n.attempt)} ${n.attempt === 1 ? 'attempt' : 'attempts'}</small></td>
      <td class="wide">${n.kind}</td>${hasIncident && html`<td class="mono wide">${incident}</td>`}
      <td class="wide">${n.person ?? '–'}</td><td class="number wide">${count(n.attempt)}</td>
      <td class="number wide">${n.latency_seconds === null ? '–' : duration(n.latency_seconds)}</td>
      <td class="answer">${n.answer ?? '–'}</td>
    </tr>`;
}

/** Says what to configure, as long as no notice was ever sent. */
export function NoticeHint() {
  const notices = useApi('/api/notices?limit=1', 15_000);
  if (!notices.data || notices.data.notices.length) return null;
  return html`<p class="notice-hint"><span>weir has sent no notice yet. It sends them to <code>[[receivers]]</code> of its
    configuration (<code>docs/notify.md</code>); without any, incidents are only listed here.</span></p>`;
}
