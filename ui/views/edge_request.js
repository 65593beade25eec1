// @ts-check
// One request as each tier's clock saw it. Lengths are measured; clocks differ, so where a bar lies within the one above is not.
import { html } from '../vendor/preact-htm.js';
import { objects } from '../api.js';
import { useSql } from '../hooks.js';
import { duration, time } from '../format.js';
import { States } from '../parts/panel.js';
import { oneRequest } from './edge_sql.js';

const TITLES = { client: 'browser', edge: 'edge', proxy: 'proxy', app: 'application' };

/** The measured parts of a tier's time; the rest is `client`. @param {any} row */
export function parts(row) {
  const known = [
    ['read', 'reading the request', row.request_read_seconds],
    ['queue', 'waiting for a backend', row.queue_seconds],
    ['connect', 'connecting', row.upstream_connect_seconds],
    ['app', row.tier === 'client' ? 'until first byte' : 'first byte of the backend', row.upstream_header_seconds === null ? null
      : row.upstream_header_seconds - (row.upstream_connect_seconds ?? 0)],
    ['body', 'rest of its answer', row.upstream_response_seconds === null || row.upstream_header_seconds === null ? null
      : row.upstream_response_seconds - row.upstream_header_seconds],
  ].filter(([, , seconds]) => seconds !== null && seconds > 0);
  const spent = known.reduce((sum, [, , seconds]) => sum + seconds, 0);
  const rest = row.duration_seconds - spent;
  return rest > 0 ? [...known, ['client', row.tier === 'client' ? 'until the last byte' : 'to the client', rest]] : known;
}

/** @param {{id: string}} props */
export function Waterfall({ id }) {
  const loaded = useSql(oneRequest(id), { every: 5_000 });
  return html`<section class="waterfall" aria-label="one request">
    <${States} loaded=${loaded} isEmpty=${d => !d.rows.length} empty=${`No tier knows the request ${id}.`}>${data => {
      const rows = objects(data).filter(row => row.duration_seconds !== null);
      const longest = Math.max(...rows.map(row => row.duration_seconds));
      return html`
        <h3>${rows[0]?.url_path ?? ''} <span class="aside">${rows[0] ? `${time(rows[0].ts, { digits: 1 })} UTC, ` : ''}id ${id}</span></h3>
        ${rows.map(row => html`<div key=${`${row.tier} ${row.ts}`} class="waterfall-tier" data-tier=${row.tier}>
          <b>${TITLES[row.tier] ?? row.tier}<small>${row.host}</small></b>
          <div class="waterfall-room"><div class="timebar" style=${{ width: `${Math.max(1, 100 * row.duration_seconds / longest)}%` }}>
            ${parts(row).map(([name, label, seconds]) => html`<i key=${name} class=${`part-${name}`}
              title=${`${label}: ${duration(seconds)}`} style=${{ flexGrow: String(Math.max(1, Math.round(seconds * 1e6))) }} />`)}</div>
                </div>
          <span class="number">${duration(row.duration_seconds)}</span>
          <p class="aside">${parts(row).map(([, label, seconds]) => `${label} ${duration(seconds)}`).join(' · ')}${row.upstream_address
            ? ` · ${row.upstream_address}` : ''}${row.failure ? ` · failed: ${row.failure}` : ''}</p>
        </div>`)}
        <p class="foot">Each bar uses its own clock: the difference between two bars was spent between the tiers.</p>`;
    }}<//>
  </section>`;
}
