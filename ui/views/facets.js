// @ts-check
// The most frequent values of a few fields under the present search; a click adds the value to the search.
import { html, useState } from '../vendor/preact-htm.js';
import { useSql } from '../hooks.js';
import { objects } from '../api.js';
import { count } from '../format.js';
import { facetSql, termOf } from '../search.js';
import { Icon } from '../parts/icon.js';
import { Empty, OpenSql, States } from '../parts/panel.js';

const FIELDS = ['kind', 'http_response_status_code', 'severity', 'program', 'source', 'url_path', 'server_address', 'client_address', 'upstream_address',
  'http_request_method', 'user_agent_original', 'host', 'reason', 'repair'];
const OPEN_FIRST = new Set(['kind', 'http_response_status_code', 'severity', 'program']);

/** @param {{tables: any[], schema: any, q: string, isReady: boolean, onPick: (term: string) => void}} props */
export const Facets = ({ tables, schema, q, isReady, onPick }) => html`
  <aside class="panel facets" aria-label="fields">
    <header><h2>Fields</h2></header>
    ${FIELDS.map(field => html`<${Facet} key=${field} field=${field} sql=${isReady ? facetSql(tables, field, schema) : null} q=${q}
      onPick=${onPick} />`)}
  </aside>`;

function Facet({ field, sql, q, onPick }) {
  const [isOpen, setOpen] = useState(OPEN_FIRST.has(field));
  const loaded = useSql(isOpen ? sql : null, { every: 15_000 });
  return html`
    <details open=${isOpen} onToggle=${e => setOpen(e.currentTarget.open)}>
      <summary><${Icon} name="right" />${field}</summary>
      ${isOpen && (sql === null ? html`<${Empty}>not in these rows<//>` : html`<${States} loaded=${loaded} lines=${2}
        isEmpty=${d => !d.rows.length} empty="no value">
        ${answer => html`<ul>${objects(answer).map(({ value, n }) => {
          const term = termOf(field, value);
          const isOn = ` ${q} `.includes(` ${term} `);
          return html`<li key=${value}><button type="button" aria-pressed=${isOn} class=${isOn ? 'is-on' : ''}
            title=${`${isOn ? 'remove' : 'add'} ${term}`} onClick=${() => onPick(term)}>
            <span>${value === '' ? '(empty)' : value}</span><b>${count(n)}</b></button></li>`;
        })}</ul><${OpenSql} sql=${sql} />`}
      <//>`)}
    </details>`;
}
