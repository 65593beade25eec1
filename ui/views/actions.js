// @ts-check
// Actions: repairs that wait for a person, runs with what came of them, and the stop of all repairs.
import { html, useState } from '../vendor/preact-htm.js';
import { decideRun, stopRepairs, startRepairs } from '../api.js';
import { useApi, useTick } from '../hooks.js';
import { ago, duration, time } from '../format.js';
import { link, useRoute } from '../router.js';
import { Dialog } from '../parts/dialog.js';
import { Icon } from '../parts/icon.js';
import { Panel, States } from '../parts/panel.js';

const SQL = 'select * from action_run order by ts desc limit 200';
const EVERY_MS = 3_000;
const NAME = 'weir.person';
// Icon and colour of a run's state.
const LOOKS = { verified: 'ok', undone: 'ok', failed: 'page', unknown: 'page', refused: 'note', proposed: 'note', ended: 'pending' };

export function Actions() {
  useTick(5_000);
  const { params } = useRoute();
  const loaded = useApi('/api/actions', EVERY_MS);
  const [asked, setAsked] = useState(/** @type {any} */ (null));
  const close = () => setAsked(null);
  const isHere = run => !params.host || run.host === params.host;
  return html`
    <${Stopped} data=${loaded.data} />
    <${Panel} title="Waiting for an answer" aside=${html`<${Switch} data=${loaded.data} ask=${setAsked} />`}>
      <${States} loaded=${loaded} isEmpty=${d => !d.runs.some(r => r.state === 'asked' && isHere(r))}
        empty=${html`<p class="calm"><${Icon} name="ok" /><b>No repair waits for an answer.</b></p>`}>
        ${data => html`<${Runs} runs=${data.runs.filter(r => r.state === 'asked' && isHere(r))} ask=${setAsked} />`}
      <//>
    <//>
    <${Panel} title="Runs" sql=${SQL} aside=${html`<span class="aside">eight days, newest change first</span>`}>
      <${States} loaded=${loaded} isEmpty=${d => !d.runs.some(isHere)} empty=${html`<${Hint} isEnabled=${loaded.data?.enabled} />`}>
        ${data => html`<${Runs} runs=${data.runs.filter(r => r.state !== 'asked' && isHere(r))} ask=${setAsked} />`}
      <//>
    <//>
    <${Ladders} loaded=${loaded} />
    ${asked && html`<${Question} asked=${asked} onClose=${close} reload=${loaded.reload} />`}`;
}

const Hint = ({ isEnabled }) => html`
  <p><b>No repair was proposed yet.</b></p>
  <p><span>${isEnabled ? html`A repair is proposed when a finding of a rule in <code>[[heals]]</code> fires.`
    : html`Repairs are off. <code>weir heal draft RULE</code> writes what they need (<code>docs/heal.md</code>).`}</span></p>`;

/** Says that no repair runs. */
const Stopped = ({ data }) => (data?.stopped ? html`
  <p class="banner banner-old" role="status"><${Icon} name="pause" /><span><b>Repairs are stopped</b> by ${data.stopped.by}${data.stopped.at_ts
    ? `, ${ago(data.stopped.at_ts)}` : ''}${data.stopped.reason ? `: ${data.stopped.reason}` : ''}</span></p>` : null);

/** Stops all repairs, or starts them again. */
const Switch = ({ data, ask }) => (data?.enabled ? html`
  <button type="button" onClick=${() => ask({ what: data.stopped ? 'start' : 'stop' })}>${data.stopped ? 'Start repairs again' : 'Stop all repairs'}
    </button>` : null);

const Runs = ({ runs, ask }) => html`
  <div class="scroll"><table class="list runs"><thead><tr><th scope="col">state</th><th scope="col">action</th><th scope="col" class="wide">host</th><th
    scope="col" class="wide">changed (UTC)</th><th scope="col">outcome</th></tr></thead>
    <tbody>${runs.map(r => html`<${Row} key=${r.run_id} r=${r} ask=${ask} />`)}</tbody></table></div>`;

function Row({ r, ask }) {
  const params = Object.entries(r.params ?? {}).map(([name, value]) => `${name}=${value}`).join(' ');
  const left = r.asked_until_ts ? Math.round((Date.parse(r.asked_until_ts) - Date.now()) / 1000) : 0;
  const incident = r.incident_id && html`, <a href=${link('incidents', {}, r.incident_id)}>${r.incident_id}</a>`;
  const look = LOOKS[r.state] ?? 'pending';
  return html`
    <tr data-row tabindex="-1" data-run=${r.run_id}>
      <td><span class="badge badge-${look}"><${Icon} name=${look} />${r.state}</span>${r.state === 'asked' && left > 0
        ? html`<small>${duration(left)} left</small>` : ''}</td>
      <td class="answer"><span class="mono">${r.action} ${params}</span><small>${r.rule}${incident}</small><small
        class="narrow">${r.host}, ${ago(r.changed_ts)}</small></td>
      <td class="wide"><a href=${link('host', {}, r.host)}>${r.host}</a><small>${r.role}</small></td>
      <td class="mono wide" title=${r.changed_ts}>${time(r.changed_ts, { digits: 0 })}<small>${ago(r.changed_ts)}</small></td>
      <td class="answer"><span>${r.reason || (r.state === 'asked' ? r.subject : '–')}</span>${r.approved_by ? html`<small>approved by ${r.approved_by}</small>` : ''}
        ${r.output_tail ? html`<details><summary>output${r.exit_status === null ? '' : `, exit ${r.exit_status}`}</summary><pre>${r.output_tail}</pre></details>` : ''}
        ${r.state === 'asked' && html`<div class="actions"><button type="button" class="primary" onClick=${() => ask({ what: 'approve', run: r })}>
          Approve</button><button type="button" onClick=${() => ask({ what: 'refuse', run: r })}>Refuse</button></div>`}
        ${['ended', 'verified', 'failed'].includes(r.state) && !r.undo && html`<div class="actions"><button type="button"
          onClick=${() => ask({ what: 'undo', run: r })}>Undo</button></div>`}</td>
    </tr>`;
}

const Ladders = ({ loaded }) => (loaded.data?.ladders?.length ? html`
  <${Panel} title="How far each repair may go">
    <div class="scroll"><table class="list"><thead><tr><th scope="col">rule</th><th scope="col" class="wide">action</th><th scope="col">role</th><th
      scope="col">at most</th><th scope="col" class="number wide">verified runs</th><th scope="col" class="wide">why</th></tr></thead>
      <tbody>${loaded.data.ladders.map(l => html`<tr key=${`${l.rule} ${l.action} ${l.role}`} data-row tabindex="-1">
        <td class="answer"><span class="mono">${l.rule}</span><small class="narrow">${l.action}</small></td><td class="mono wide">${l.action}</td><td>${l.role || '–'}</td>
        <td>${l.limit}</td><td class="number wide">${l.verified}</td><td class="wide">${l.reason || '–'}</td></tr>`)}
      </tbody></table></div>
  <//>` : null);

const TITLES = { approve: 'Approve this repair?', refuse: 'Refuse this repair?', undo: 'Take this repair back?', stop: 'Stop all repairs?', start: 'Start repairs again?' };
const YES = { approve: 'Approve', refuse: 'Refuse', undo: 'Undo', stop: 'Stop', start: 'Start' };

function Question({ asked: { what, run }, onClose, reload }) {
  const answer = async form => {
    const { by, reason } = Object.fromEntries(new FormData(form));
    try { localStorage.setItem(NAME, by); } catch { /* storage is off: for this time only */ }
    if (what === 'stop') await stopRepairs({ by, reason });
    else if (what === 'start') await startRepairs({ by });
    else await decideRun(run.run_id, what, { by });
    reload();
  };
  return html`<${Dialog} title=${TITLES[what]} yes=${YES[what]} onYes=${answer} onClose=${onClose}>
    ${run && html`<p><code>${run.action}</code> on ${run.host}: ${run.subject}</p>`}
    ${what === 'stop' && html`<p>No repair starts until a person starts them again; what runs already ends by itself.</p>
      <label>Reason <input name="reason" maxlength="500" placeholder="game day" /></label>`}
    <label>Your name <input name="by" required pattern=".*\\S.*" maxlength="100" autocomplete="name" value=${person()} /></label>
  <//>`;
}

function person() {
  try { return localStorage.getItem(NAME) ?? ''; } catch { return ''; }
}
