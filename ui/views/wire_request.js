// @ts-check
// Requests of one second, and one request's way: each stamp, and who owns the time between two of them.
import { html } from '../vendor/preact-htm.js';
import { useSql } from '../hooks.js';
import { objects } from '../api.js';
import { count, duration, time } from '../format.js';
import { setParams } from '../router.js';
import { Empty, OpenSql, States } from '../parts/panel.js';
import * as questions from './wire_sql.js';

const OWNERS = {
  client: 'the client, or the network to it', queue: 'the server before its own calls', app: 'the server thinks',
    body: 'response in transit', relay: 'the server forwards it',
};

/** Stretches of a request's time, in order. @param {any} request @param {any[]} children */
export function stretches(request, children) {
  const first = children[0];
  const last = children.at(-1);
  const behind = children.length > 1 ? `${children.length} requests behind` : `port ${first?.server_port} behind it`;
  const stamps = [
    { ts: request.request_first_ts, what: 'first byte of the request' },
    { ts: request.request_last_ts, what: 'last byte of the request', owner: 'client', text: 'sends the request' },
    ...(first?.response_first_ts ? [
      { ts: first.request_first_ts, what: 'first byte of the upstream request', owner: 'queue',
        text: `port ${request.server_port} has it and makes no call yet` },
      { ts: first.request_last_ts, what: 'last byte of the upstream request', owner: 'relay',
        text: `port ${request.server_port} forwards it` },
      { ts: last.response_first_ts ?? last.request_last_ts, what: 'first byte of the upstream response', owner: 'app',
        text: `${behind} thinks` },
      { ts: request.response_first_ts, what: 'first byte of the response', owner: 'relay',
        text: `port ${request.server_port} forwards it` },
    ] : [{ ts: request.response_first_ts, what: 'first byte of the response', owner: 'app', text: `port ${request.server_port} thinks` }]),
    { ts: request.response_last_ts, what: 'last byte of the response', owner: 'body', text: 'response sent as fast as the client reads' },
    { ts: request.response_acked_ts, what: 'the client has the full response', owner: 'client', text: 'network round trip' },
  ].filter(stamp => stamp.ts);
  const begin = micros(stamps[0].ts);
  return stamps.map((stamp, i) => ({ ...stamp, at: (micros(stamp.ts) - begin) / 1e6, seconds: i
    ? Math.max(0, micros(stamp.ts) - micros(stamps[i - 1].ts)) / 1e6 : 0 }));
}

/** Microseconds of a time; `Date` would cut it to milliseconds. @param {string} ts */
export function micros(ts) {
  const [, whole, digits = ''] = /^(.*?)(?:\.(\d+))?Z?$/.exec(ts) ?? [];
  return Date.parse(`${whole}Z`) * 1_000 + Number(digits.padEnd(6, '0').slice(0, 6));
}

/** @param {{request: any, children: any[]}} props */
export function Timeline({ request, children }) {
  const parts = stretches(request, children);
  const total = parts.at(-1)?.at || 1e-9;
  const longest = parts.reduce((a, b) => (b.seconds > a.seconds ? b : a));
  return html`
    <div class="way">
      <p class="way-title"><b>${request.http_request_method ?? 'request'} ${request.url_path ?? ''}
        </b> ${request.http_response_status_code ?? ''} from ${request.client_address}, number ${request.connection_requests} of its connection, ended ${request.end}</p>
      <div class="way-bar" role="img" aria-label=${`most of the time, ${duration(longest.seconds)}: ${longest.text ?? ''}`}>
        ${parts.slice(1).map((p, i) => html`<i key=${i} class=${`owner-${p.owner}`}
          style=${{ left: `${(p.at - p.seconds) / total * 100}%`, width: `${p.seconds / total * 100}%` }}
            title=${`${p.text}: ${duration(p.seconds)}`} />`)}
      </div>
      <table class="way-stamps">
        <thead><tr><th scope="col">time (UTC)</th><th scope="col" class="number">since the first byte</th><th scope="col"
          class="number">since the previous event</th><th scope="col">event</th><th scope="col">time spent in</th></tr></thead>
        <tbody>${parts.map((p, i) => html`
          <tr key=${i} class=${p === longest ? 'is-longest' : undefined}><td>${time(p.ts, { digits: 6 })}</td><td class="number">
            ${duration(p.at)}</td><td class="number">${i ? duration(p.seconds) : ''}</td>
            <td>${p.what}</td><td>${p.owner && html`<i class=${`owner-dot owner-${p.owner}`} />`}${p.text ?? ''}</td></tr>`)}</tbody>
      </table>
      ${(request.request_retransmits > 0 || request.response_retransmits > 0) && html`<p
        class="aside">retransmitted: ${count(request.request_retransmits)} segments of the request, ${count(request.response_retransmits)} of the answer</p>`}
      <p class="way-legend">${Object.entries(OWNERS).map(([owner, text]) => html`<span key=${owner}><i
        class=${`owner-dot owner-${owner}`} />${text}</span>`)}</p>
    </div>`;
}

/** Rows of requests; the one that the address names is opened. @param {{rows: any[], chosen?: string, childrenOf: (request: any) => any}} props */
export function Requests({ rows, chosen, childrenOf }) {
  if (!rows.length) return html`<${Empty}>No single requests stored for that second: still in progress, or beyond the row limit.<//>`;
  return html`
    <table class="wire-requests">
      <thead><tr><th scope="col">began</th><th scope="col">request</th><th scope="col" class="number">status</th><th scope="col"
        class="number">whole</th><th scope="col" class="number">thinks</th><th scope="col" class="number">transfer</th><th
          scope="col">ended</th></tr></thead>
      <tbody>${rows.map(r => {
        const isOpen = String(r.source_offset) === chosen;
        const toggle = () => setParams({ request: isOpen ? '' : r.source_offset });
        return html`
          <tr key=${r.source_offset} data-row tabindex="0" aria-expanded=${isOpen} class=${isOpen ? 'is-open' : undefined}
            onClick=${toggle} onKeyDown=${e => { if (e.key === 'Enter') toggle(); }}>
            <td>${time(r.request_first_ts, { digits: 3 })}</td><td>
              ${r.http_request_method ?? ''} ${r.url_path ?? html`<span class="null">not readable</span>`}</td><td class="number">
                ${r.http_response_status_code ?? '–'}</td>
            <td class="number">${orDash(r.duration_seconds)}</td><td class="number">${orDash(r.think_seconds)}</td><td class="number">
              ${orDash(r.transfer_seconds)}</td><td>${r.end}</td></tr>
          ${isOpen && html`<tr class="wire-opened"><td colspan="7">${childrenOf(r)}</td></tr>`}`;
      })}</tbody>
    </table>`;
}

const orDash = seconds => (seconds === null || seconds === undefined ? '–' : duration(seconds));

/** Requests of one second of a tap. @param {{place: questions.Place, ts: string, chosen?: string}} props */
export function LiveRequests({ place, ts, chosen }) {
  const sql = questions.requests(place, ts);
  const loaded = useSql(sql, { limit: 200 });
  return html`<div class="wire-second" aria-label="requests of this second">
    <h3>Requests that began at ${time(ts, { digits: 0 })} UTC, slowest first <${OpenSql} sql=${sql} /></h3>
    <${States} loaded=${loaded}>${data => html`<${Requests} rows=${objects(data)} chosen=${chosen}
      childrenOf=${request => html`<${LiveTimeline} source=${place.source} request=${request} />`} />`}<//></div>`;
}

function LiveTimeline({ source, request }) {
  const loaded = useSql(questions.children(source, request), { limit: 10 });
  return html`<${States} loaded=${loaded}>${data => html`<${Timeline} request=${request} children=${objects(data)} />`}<//>`;
}
