// @ts-check
// One row of the logs; opened, it shows every field as stored and lets each be searched for.
import { html } from '../vendor/preact-htm.js';
import { useSql } from '../hooks.js';
import { duration, exact, time, value } from '../format.js';
import { rowSql, termOf } from '../search.js';
import { Icon } from '../parts/icon.js';
import { CopyButton, OpenSql, States } from '../parts/panel.js';

/** The identity of a row: its position in the source. */
export const keyOf = row => `${row.kind} ${row.host} ${row.source} ${row.source_offset} ${row.ts}`;

const WORDS = { error: 'page', warn: 'mail', normal: '' };

/** @param {{row: any, isOpen: boolean, onToggle: () => void, onPick: (term: string) => void}} props */
export const LogRow = ({ row, isOpen, onToggle, onPick }) => html`
  <div class=${`row row-${row.level}${isOpen ? ' is-open' : ''}`}>
    <button type="button" class="row-line" data-row aria-expanded=${isOpen} onClick=${onToggle}>
      <time datetime=${row.ts} title=${`${row.ts} (UTC+00:00)`}>${time(row.ts)}</time>
      <span class="row-label">${WORDS[row.level] && html`<${Icon} name=${WORDS[row.level]} label=${row.level} />`}${row.label ?? '–'}</span>
      <span class="row-program">${row.program ?? row.source.split('/').pop()}</span>
      <span class="row-message">${row.message}</span>
      <span class="row-duration">${row.duration_seconds === null ? '' : duration(row.duration_seconds)}</span>
    </button>
    ${isOpen && html`<${Detail} row=${row} onPick=${onPick} />`}
  </div>`;

function Detail({ row, onPick }) {
  const sql = rowSql(row);
  const loaded = useSql(sql);
  return html`<div class="row-detail"><${States} loaded=${loaded} lines=${6} isEmpty=${d => !d.rows.length}
    empty="The row is past retention.">
    ${answer => html`
      <dl>${answer.columns.map((column, i) => ({ column, cell: answer.rows[0][i] })).filter(({ cell }) => cell !== null
        && JSON.stringify(cell) !== '{}').flatMap(({ column, cell }) =>
        column.kind === 'map' ? Object.entries(cell).map(([name, part]) => ({ name: `attrs.${name}`, cell: part,
          column: { ...column, kind: 'text' } })) : [{ name: column.name, cell, column }])
        .map(({ name, cell, column }) => html`<div key=${name}><dt>${name}</dt><dd title=${exact(cell, column)}>
          ${value(cell, column.kind === 'timestamp' ? { ...column, kind: 'text' } : column)}</dd>
          ${column.kind !== 'timestamp' && html`<span class="pick">
            <button type="button" title=${`search ${name} = this`} aria-label=${`search rows with this ${name}`}
              onClick=${() => onPick(termOf(name, cell))}><${Icon} name="plus" /></button>
            <button type="button" title=${`search ${name} is not this`} aria-label=${`search rows without this ${name}`}
              onClick=${() => onPick(`-${termOf(name, cell)}`)}><${Icon} name="minus" /></button></span>`}</div>`)}</dl>
      <p class="row-tools"><${CopyButton} text=${JSON.stringify(Object.fromEntries(answer.columns.map((c, i) => [c.name,
        answer.rows[0][i]])), null, 2)} label="Copy as JSON" /><${OpenSql} sql=${sql} />
        ${answer.columns.some(c => c.name === 'raw') ? '' : html`<span class="aside">NULL fields are left out</span>`}</p>`}
  <//></div>`;
}
