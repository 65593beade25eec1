// @ts-check
// What a person does about an open incident: acknowledge, resolve and silence it.
import { html, useState } from '../vendor/preact-htm.js';
import { addSilence, changeIncident } from '../api.js';
import { time } from '../format.js';
import { link } from '../router.js';
import { Dialog } from '../parts/dialog.js';
import { Refused } from '../parts/panel.js';

const SPANS = [['30m', '30 minutes'], ['2h', '2 hours'], ['8h', '8 hours'], ['1d', '1 day'], ['7d', '7 days'], ['30d', '30 days']];

/** @param {{i: any, reload: () => void}} props `i` of `/api/incidents/{incident_id}` */
export function IncidentActions({ i, reload }) {
  const [asked, setAsked] = useState(/** @type {null | 'resolve' | 'silence'} */ (null));
  const [done, setDone] = useState(/** @type {{text?: any, error?: any}} */ ({}));
  const change = async action => {
    const { change } = await changeIncident(i.incident_id, action);
    setDone({ text: change });
    reload();
  };
  const ack = () => change('ack').catch(error => setDone({ error }));
  const silence = async form => {
    const { host, for: span, reason } = Object.fromEntries(new FormData(form));
    const made = await addSilence({ rule: i.root_rule, ...(host && { host }), for: span, reason: reason.trim() });
    setDone({ text: html`${made.rule} is silenced until ${time(made.until, { digits: 0 })} UTC; it ends under <a
      href=${link('oncall')}>on call</a>` });
    reload();
  };
  const close = () => setAsked(null);
  return html`
    <div class="actions" role="group" aria-label="actions">
      <button type="button" class=${i.state === 'open' ? 'primary' : undefined} onClick=${ack}
        title="Holds back the escalation for 60 minutes">${i.state === 'open' ? 'Acknowledge' : 'Acknowledge again'}</button>
      <button type="button" onClick=${() => setAsked('resolve')}>Resolve</button>
      <button type="button" onClick=${() => setAsked('silence')}>Silence</button>
      <span class="aside" role="status">${done.text}</span>
      ${done.error && html`<${Refused} error=${done.error} />`}
    </div>
    ${asked === 'resolve' && html`<${Dialog} title="Resolve this incident?" yes="Resolve" onYes=${() => change('resolve')} onClose=${close}>
      <p>${i.title}</p><p>It opens again when it gets worse or comes back.</p><//>`}
    ${asked === 'silence' && html`<${Dialog} title=${`Silence ${i.root_rule}`} yes="Silence" onYes=${silence} onClose=${close}>
      <p>Findings stay visible; their notices wait until the silence ends. A higher class is sent all the same.</p>
      ${i.host ? html`<label>On <select name="host"><option value=${i.host}>${i.host}</option><option value="">all hosts</option></select></label>`
        : html`<p>It holds for all hosts.</p>`}
      <label>For <select name="for">${SPANS.map(([span, label]) => html`<option key=${span} value=${span} selected=${span === '2h'}>
        ${label}</option>`)}</select></label>
      <label>Reason <input name="reason" required pattern=".*\\S.*" maxlength="500" autofocus placeholder="the disk is being replaced" /></label>
    <//>`}`;
}
