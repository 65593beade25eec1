// @ts-check
// HAProxys of this host in the Edge view: servers and their controls, each with a confirmation.
import { html, useState } from '../vendor/preact-htm.js';
import { orderHaproxy } from '../api.js';
import { useApi } from '../hooks.js';
import { count } from '../format.js';
import { Icon } from '../parts/icon.js';
import { Panel } from '../parts/panel.js';

/** One panel for each HAProxy that is there; nothing when there is none. */
export function Haproxies() {
  const loaded = useApi('/api/haproxy', 3_000);
  const { haproxies = [], may_change = false } = loaded.data ?? {};
  return haproxies.map(h => html`
    <${Panel} key=${h.socket} title="HAProxy" aside=${html`<span class="aside">
      ${h.socket}; what is changed holds until HAProxy is restarted or reloaded</span>`}>
      ${h.error ? html`<p class="foot" role="alert"><span class="row-error"><${Icon} name="mail" />${h.error}</span>
        ${h.hint ? html`<br />${h.hint}` : ''}</p>` : html`
      <div class="scroll"><table class="list">
        <thead><tr><th scope="col">server</th><th scope="col">state</th><th scope="col" class="number">sessions</th><th scope="col"
          class="number">total</th><th scope="col" class="number">failures</th><th scope="col" class="number">weight</th><th
            scope="col">orders</th></tr></thead>
        <tbody>${h.servers.map(s => html`<tr key=${s.server} data-row data-server=${s.server} tabindex="-1">
          <td class="mono"><b>${s.server}</b><span class="aside"> ${s.address ?? ''}</span></td><td title=${s.check ?? ''}>${s.state}</td>
          <td class="number">${count(s.sessions)}${s.queued > 0 ? html` <span class="aside">+${s.queued} wait</span>` : ''}</td><td
            class="number">${count(s.sessions_total)}</td><td class="number">${count(s.failures_total)}</td>
          <td class="number">${s.weight}</td><td><${Orders} socket=${h.socket} server=${s} mayChange=${may_change}
            reload=${loaded.reload} /></td></tr>`)}</tbody>
      </table></div>
      ${!may_change && html`<p
        class="foot">Servers are drained here with a login of scope <code>change</code>; on this host <code>weir haproxy drain BACKEND/SERVER</code> does it.</p>`}`}
    <//>`);
}

function Orders({ socket, server, mayChange, reload }) {
  const [wanted, setWanted] = useState(/** @type {{order: string, weight?: number} | null} */ (null));
  const [error, setError] = useState(/** @type {any} */ (null));
  if (!mayChange) return html`–`;
  const choose = (order, weight) => { setError(null); setWanted({ order, weight }); };
  const confirm = async () => {
    setError(await orderHaproxy({ socket, server: server.server, ...wanted }).then(() => null, problem => problem));
    setWanted(null);
    reload();
  };
  if (wanted !== null) {
    const what = wanted.order === 'weight' ? `Weight ${wanted.weight} for ${server.server}?` : `${wanted.order} ${server.server}?`;
    return html`<span class="edge-confirm" role="alertdialog" aria-label="confirm"><b>${what}</b>
      <button type="button" class="primary" onClick=${confirm}>Yes</button> <button type="button"
        onClick=${() => setWanted(null)}>No</button></span>`;
  }
  const isOut = /^(DRAIN|MAINT|NOLB)/.test(server.state);
  return html`<span class="edge-weight"><input type="number" min="0" max="256" value=${server.weight}
    aria-label=${`weight of ${server.server}`} onChange=${e => { if (e.currentTarget.checkValidity()) choose('weight',
      Number(e.currentTarget.value)); }} />
    ${isOut ? html`<button type="button" onClick=${() => choose('ready')}>Ready</button>` : html`<button type="button"
      onClick=${() => choose('drain')}>Drain</button> <button type="button" onClick=${() => choose('maint')}>Maint</button>`}
    ${error && html`<span class="row-error" role="alert"><${Icon} name="mail" />${error.message}</span>`}</span>`;
}
