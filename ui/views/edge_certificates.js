// @ts-check
// Certificates in the Edge view: the edge's own (ACME), and those served by the hosts' TLS servers.
import { html } from '../vendor/preact-htm.js';
import { objects } from '../api.js';
import { useSql } from '../hooks.js';
import { duration, time } from '../format.js';
import { Icon } from '../parts/icon.js';
import { Panel, States } from '../parts/panel.js';
import { CERTIFICATES } from './edge_sql.js';
import { scoped } from './tier_sql.js';

const STATES = { valid: 'up', due: 'slow_start', old: 'draining', missing: 'out', ended: 'out', failed: 'out' };
const TITLES = { due: 'renewal is due', old: 'the file has a newer certificate: reload the server' };

/** One row per certificate; nothing when there is none. @param {{host: string}} props */
export function Certificates({ host }) {
  const sql = scoped(CERTIFICATES, host);
  const loaded = useSql(sql, { every: 30_000 });
  if (!loaded.error && !loaded.data?.rows.length) return null;
  return html`
    <${Panel} title="Certificates" sql=${sql} aside=${html`<span
      class="aside">obtained by the edge, and shown by other TLS servers of its hosts</span>`}>
      <${States} loaded=${loaded}>${data => html`
        <div class="scroll"><table class="list">
          <thead><tr><th scope="col">names</th><th scope="col">host</th><th scope="col">state</th><th scope="col">ends</th><th
            scope="col">where from</th><th scope="col">last failure</th></tr></thead>
          <tbody>${objects(data).map(c => html`<tr key=${`${c.host} ${c.names} ${c.origin}`} data-row tabindex="-1">
            <td class="mono"><b>${c.names}</b></td><td>${c.host}</td>
            <td><span class=${`edge-state is-${STATES[c.state]}`} title=${TITLES[c.state] ?? ''}>${c.state}</span></td>
            <td title=${c.not_after ?? ''}>${c.not_after ? ends(c.not_after) : '–'}</td><td class="mono">${c.origin}</td>
            <td>${c.failure && html`<span class="row-error"><${Icon} name="mail" />${c.failure}</span>`}${c.next_attempt_ts && c.failure
              ? html` <span class="aside">next attempt at ${time(c.next_attempt_ts, { digits: 0 })} UTC</span>` : ''}</td></tr>`)}</tbody>
        </table></div>`}
      <//>
    <//>`;
}

/** @param {string} ts */
function ends(ts) {
  const seconds = (Date.parse(ts) - Date.now()) / 1000;
  return seconds < 0 ? `${duration(-seconds)} ago` : `in ${duration(seconds)}`;
}
