// @ts-check
// On call: the people of each rota, silences that hold, and the newest notices with a test of a receiver.
import { html, useState } from '../vendor/preact-htm.js';
import { endSilence, testReceiver } from '../api.js';
import { useApi, useTick } from '../hooks.js';
import { duration, time } from '../format.js';
import { Dialog } from '../parts/dialog.js';
import { Icon } from '../parts/icon.js';
import { Panel, Refused, States } from '../parts/panel.js';
import { NoticeHint, NoticeTable } from './notices.js';

const NOTICES_AT_MOST = 50;
const NOTICES_SQL = `select * from notice_now order by ts desc limit ${NOTICES_AT_MOST}`;

export function OnCall() {
  useTick(5_000);
  return html`<${Rotas} /><${Silences} /><${Notices} />`;
}

function Rotas() {
  const loaded = useApi('/api/oncall', 5_000);
  return html`
    <${Panel} title="On call now">
      <${States} loaded=${loaded} isEmpty=${d => !d.rotas.length}
        empty=${html`<p><span><b>No rota is configured.</b> <code>[[rotas]]</code> are people on call in turn (<code>docs/notify.md</code>).</span></p>`}>
        ${data => html`<div class="scroll"><table class="list rotas"><thead><tr><th scope="col">rota</th><th scope="col">on call</th><th
          scope="col">until (UTC)</th><th scope="col">why</th></tr></thead>
          <tbody>${data.rotas.map(r => html`<tr key=${r.rota} data-row tabindex="-1" data-rota=${r.rota}><td>${r.rota}</td>
            <td>${r.people.length ? html`<b>${r.people.join(', ')}</b>` : html`<span class="badge badge-mail"><${Icon} name="mail" />nobody
              </span>`}</td><td class="mono"><${Until} ts=${r.until} /></td><td>${r.why}</td></tr>`)}</tbody></table></div>`}
      <//>
    <//>`;
}

/** When it ends, and in how long. */
const Until = ({ ts }) => (ts ? html`<time datetime=${ts} title=${ts}>${time(ts, { digits: 0 })}</time><small>${left(ts)}</small>` : '–');

function left(ts) {
  const seconds = Math.round((Date.parse(ts) - Date.now()) / 1000);
  return seconds > 0 ? `in ${duration(seconds)}` : 'now';
}

function Silences() {
  const loaded = useApi('/api/silences', 3_000);
  const [ending, setEnding] = useState(/** @type {any} */ (null));
  const [done, setDone] = useState('');
  const end = async () => {
    await endSilence(ending.id);
    setDone(`the silence of ${ending.rule} is over`);
    loaded.reload();
  };
  return html`
    <${Panel} title="Active silences" aside=${html`<span class="aside" role="status">${done}</span>`}>
      <${States} loaded=${loaded} isEmpty=${d => !d.silences.length} empty=${html`<p><b>No silences.</b></p>`}>
        ${data => html`<div class="scroll"><table class="list silences"><thead><tr><th scope="col">rule</th><th scope="col">hosts</th><th
          scope="col">until (UTC)</th><th scope="col" class="wide">by</th><th scope="col" class="wide">reason</th><th scope="col"><span
            class="visually-hidden">end</span></th></tr></thead>
          <tbody>${data.silences.map(s => html`<tr key=${s.id} data-row tabindex="-1" data-silence=${s.id}>
            <td class="mono">${s.rule}<small class="narrow">${s.reason}, ${s.by}</small></td><td>${s.host || 'all'}</td>
            <td class="mono"><${Until} ts=${s.until} /></td><td class="wide">${s.by}</td><td class="wide">${s.reason}</td>
            <td class="number"><button type="button" onClick=${() => setEnding(s)} aria-label=${`End the silence of ${s.rule}`}>End</button>
              </td></tr>`)}</tbody></table></div>`}
      <//>
    <//>
    ${ending && html`<${Dialog} title="End this silence?" yes="End it" onYes=${end} onClose=${() => setEnding(null)}>
      <p><code>${ending.rule}</code> on ${ending.host || 'all hosts'}: ${ending.reason}</p><p>Notices of what still fires go out then.</p>
    <//>`}`;
}

function Notices() {
  const loaded = useApi(`/api/notices?limit=${NOTICES_AT_MOST}`, 3_000);
  const receivers = [...new Set((loaded.data?.notices ?? []).map(n => n.receiver))];
  return html`
    <${Panel} title="Notices" sql=${NOTICES_SQL} aside=${html`<span class="aside">the last ${NOTICES_AT_MOST}, newest first</span>`}>
      <${Test} receivers=${receivers} reload=${loaded.reload} />
      <${States} loaded=${loaded} isEmpty=${d => !d.notices.length} empty=${html`<${NoticeHint} />`}>
        ${data => html`<${NoticeTable} notices=${data.notices} hasIncident />`}
      <//>
    <//>`;
}

/** Sends a test; names of receivers that had a notice are offered. */
function Test({ receivers, reload }) {
  const [name, setName] = useState('');
  const [state, setState] = useState(/** @type {{isRunning?: boolean, notices?: any[], error?: any}} */ ({}));
  const send = async event => {
    event.preventDefault();
    if (state.isRunning) return;
    setState({ isRunning: true });
    setState(await testReceiver(name.trim()).then(({ notices }) => ({ notices }), error => ({ error })));
    reload();
  };
  return html`
    <form class="actions" aria-label="test a receiver" onSubmit=${send}>
      <input aria-label="receiver" placeholder="receiver" list="receivers" required pattern=".*\\S.*" autocomplete="off" value=${name}
        onInput=${e => setName(e.currentTarget.value)} />
      <datalist id="receivers">${receivers.map(r => html`<option key=${r} value=${r} />`)}</datalist>
      <button type="submit">Send a test</button>
      <span class="aside" role="status">${state.isRunning ? 'sending …' : (state.notices ?? []).map(n =>
        `${n.receiver}: ${n.state}${n.answer ? `, ${n.answer}` : ''}`).join('; ')}</span>
      ${state.error && html`<${Refused} error=${state.error} />`}
    </form>`;
}
