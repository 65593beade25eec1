// @ts-check
// Wire: was it us? A live tap or a capture dropped here: arrivals and completions on one axis, a second, a request's way.
import { html, useRef, useState } from '../vendor/preact-htm.js';
import { objects, readCapture } from '../api.js';
import { useConnection, useSql } from '../hooks.js';
import { count, duration, ratio, size, time } from '../format.js';
import { setParams, useRoute } from '../router.js';
import { Icon } from '../parts/icon.js';
import { Chart } from '../parts/chart.js';
import { Empty, Panel, Problem, Skeleton, States } from '../parts/panel.js';
import { LiveRequests, Requests, Timeline } from './wire_request.js';
import * as questions from './wire_sql.js';

const MINUTES = [5, 15, 60];
const WORDS = {
  smooth: 'nothing stands out', accept_queue: 'the accept queue of this host', keepalive_race: 'keep-alive race',
    path_loss: 'loss on the way', upstream_network_jitter: 'upstream network delays packets',
  sender_bursts: 'bursty senders', client_reader: 'slow clients', edge_stall: 'the server is slow', slow_app: 'the application',
  failing: 'failing requests',
    unknown: 'not to be told',
};

export function Wire() {
  const [read, setRead] = useState(/** @type {any} */ (null));
  const run = async (file, keep) => {
    setRead({ file, isReading: true });
    const next = await readCapture(file, keep).then(answer => ({ answer }), error => ({ error }));
    setParams({ second: '', request: '', port: '' }, true);
    setRead({ file, ...next });
  };
  return html`
    <div class="wire">
      <${Drop} read=${read} onFile=${file => run(file, false)} onKeep=${() => run(read.file, true)}
        onClose=${() => { setRead(null); setParams({ second: '', request: '', port: '' }, true); }} />
      ${read?.isReading ? html`<section class="panel"><${Skeleton} lines=${8} /></section>`
        : read?.error ? html`<section class="panel"><${Problem} error=${read.error} title="cannot read the capture" /></section>`
          : read?.answer ? html`<${Captured} answer=${read.answer} />` : html`<${Live} />`}
    </div>`;
}

function Drop({ read, onFile, onKeep, onClose }) {
  const input = useRef(/** @type {any} */ (null));
  const [isOver, setOver] = useState(false);
  const drop = event => { event.preventDefault(); setOver(false); const [file] = event.dataTransfer.files; if (file) onFile(file); };
  return html`
    <section class=${`panel drop${isOver ? ' is-over' : ''}`} aria-label="capture"
      onDragOver=${e => { e.preventDefault(); setOver(true); }} onDragLeave=${() => setOver(false)} onDrop=${drop}>
      <p><${Icon} name="down" />${read ? html`<b>${read.file.name}</b> <span class="aside">${size(read.file.size)}</span>`
        : html`Drop a capture here (pcap or pcapng, packed or not). It is read and forgotten.`}</p>
      <span class="tools">
        ${read?.answer && (read.answer.kept_rows ? html`<span class="aside">${count(read.answer.kept_rows)} rows kept</span>`
          : html`<button type="button" onClick=${onKeep}>Keep its rows</button>`)}
        ${read && html`<button type="button" onClick=${onClose}>Back to live</button>`}
        <button type="button" class="primary" onClick=${() => input.current.click()}>Choose a file</button>
        <input ref=${input} type="file" class="visually-hidden" aria-label="capture file"
          onChange=${e => { const [file] = e.currentTarget.files; if (file) onFile(file); e.currentTarget.value = ''; }} />
      </span>
    </section>`;
}

function Live() {
  const sources = useSql(questions.SOURCES, { every: 10_000 });
  const empty = html`<p>No tap is active. Name an interface in <code>weir.toml</code>, <code>[wire] interfaces = ["eth0"]</code>, or watch once with <code>weir wire -i eth0</code>. A capture can be dropped above at any time.</p>`;
  return html`<${States} loaded=${sources} lines=${6} isEmpty=${d => d.rows.length === 0} empty=${empty}>
    ${data => html`<${Tap} sources=${objects(data)} />`}<//>`;
}

function Tap({ sources }) {
  const { params } = useRoute();
  const { status } = useConnection();
  const of = s => `${s.source} ${s.server_port}`;
  const chosen = sources.find(s => of(s) === params.tap) ?? sources[0];
  const minutes = MINUTES.find(m => String(m) === params.minutes) ?? 5;
  const place = { source: chosen.source, host: chosen.host, port: chosen.server_port, minutes };
  const axis = questions.axis(place);
  const loaded = useSql(axis, { every: 5_000, limit: 4_000 });
  const numbers = useSql(questions.numbers(place), { every: 5_000 });
  const seconds = useSql(questions.seconds(place), { every: 5_000, limit: 600 });
  const silent = status ? (Date.parse(status.now) - Date.parse(chosen.last_ts)) / 1000 : 0;
  return html`
    <section class="panel wire-choice">
      <label>tap and port <select value=${of(chosen)} onChange=${e => setParams({ tap: e.currentTarget.value, second: '', request: '' })}>
        ${sources.map(s => html`<option key=${of(s)} value=${of(s)}>
          ${s.host} · ${s.source} · port ${s.server_port} (${s.tier === 'wire_upstream' ? 'upstream' : 'edge'})</option>`)}</select></label>
      <label>window <select value=${minutes} onChange=${e => setParams({ minutes: e.currentTarget.value })}>
        ${MINUTES.map(m => html`<option key=${m} value=${m}>${m} minutes</option>`)}</select></label>
      ${silent > 30 && html`<span class="old"><${Icon} name="pending" />the newest slice is ${duration(Math.round(silent))} old</span>`}
    </section>
    <${States} loaded=${numbers} lines=${4}>${data => html`<${LiveVerdict} n=${objects(data)[0]} sql=${questions.numbers(place)} />`}<//>
    <${Panel} title="Arrivals, completions and concurrency" sql=${axis} isChart=${true}
      aside=${html`<span class="aside">packets, each second; dashed beside them what proxies' logs say</span>`}>
      <${States} loaded=${loaded} lines=${6} isEmpty=${d => d.rows.length === 0} empty="No traffic in this window.">
        ${data => html`<${Chart} answer=${data} height=${260} />`}<//>
    <//>
    <${Panel} title="Seconds" sql=${questions.seconds(place)}>
      ${params.second && html`<${LiveRequests} place=${place} ts=${params.second} chosen=${params.request} />`}
      <${States} loaded=${seconds} lines=${6} isEmpty=${d => d.rows.length === 0} empty="No traffic in this window.">
        ${data => html`<${Seconds} rows=${objects(data)} chosen=${params.second} />`}<//>
    <//>`;
}

/** Each verdict with its share of the seconds, the numbers behind them, and what cannot be told. */
function LiveVerdict({ n, sql }) {
  const found = Object.keys(WORDS).filter(v => v !== 'smooth' && n[v] > 0).sort((a, b) => n[b] - n[a]);
  const enough = Math.max(3, n.seconds / 20);
  const worst = found.find(v => v !== 'unknown' && n[v] >= enough) ?? (n.unknown > n.smooth ? 'unknown' : 'smooth');
  const reasons = [
    ['think time p95, typical and worst second', `${duration(n.think_p95_seconds ?? 0)}, ${duration(n.think_worst_seconds ?? 0)}`],
      ['late SYNs', `${count(n.late_syns)} of ${count(n.syns)}`],
    ['retransmitted segments, and spurious ones', `${count(n.retransmits)}, ${count(n.spurious_retransmits)}`],
      ['lost before the host', `${count(n.missing)} of ${count(n.packets)} packets`],
    ['network delay (p95 of the worst second)', n.delay_variation_seconds === null ? 'no TCP timestamps'
      : duration(n.delay_variation_seconds)], ['arrival dispersion, worst second', `${n.dispersion_100ms?.toFixed(1) ?? '–'} times chance`],
    ['zero windows of clients', count(n.zero_windows)], ['keep-alive races', count(n.closing_races)],
    ['packets lost by the tap, by the kernel', `${count(n.tap_drops ?? 0)}, ${count(n.softnet_drops ?? 0)} in ${count(n.lossy_seconds)} s`], ['share of connections seen', ratio(n.sampled_ratio ?? 1)],
  ];
  return html`
    <${Panel} title="Was it us?" sql=${sql}>
      <p class=${`wire-verdict is-${worst}`}><b>${WORDS[worst]}</b> <span class="aside">
        ${found.length ? found.map(v => `${v}: ${n[v]} s`).join(', ') : ''} of ${count(n.seconds)} s</span></p>
      <dl class="wire-reasons">${reasons.map(([name, text]) => html`<div key=${name}><dt>${name}</dt><dd>${text}</dd></div>`)}</dl>
    <//>`;
}

function Seconds({ rows, chosen }) {
  const cell = seconds => (seconds === null || seconds === undefined ? '–' : duration(seconds));
  return html`
    <div class="wire-seconds" tabindex="0" role="region" aria-label="seconds"><table>
      <thead><tr><th scope="col">second (UTC)</th>
        ${['arrivals', 'completions', 'concurrency', 'think p95', 'transfer p95', 'connect p95', 'late SYNs', 'sent again', 'windows shut'].map(h => html`<th key=${h} scope="col" class="number">${h}</th>`)}<th scope="col">stands out</th></tr></thead>
      <tbody>${rows.map(r => {
        const isChosen = r.ts === chosen;
        const choose = () => setParams({ second: isChosen ? '' : r.ts, request: '' });
        return html`<tr key=${r.ts} data-row tabindex="0" class=${isChosen ? 'is-open' : undefined} onClick=${choose}
          onKeyDown=${e => { if (e.key === 'Enter') choose(); }}>
          <td>${time(r.ts, { digits: 1 })}</td><td class="number">${count(r.arrivals)}</td><td class="number">${count(r.completions)}</td>
            <td class="number">${r.concurrency.toFixed(2)}</td>
          <td class="number">${cell(r.think_p95_seconds)}</td><td class="number">${cell(r.transfer_p95_seconds)}</td><td class="number">
            ${cell(r.syn_wait_p95_seconds)}</td><td class="number">${count(r.late_syns)}</td><td class="number">${count(r.retransmits)}</td>
              <td class="number">${count(r.zero_windows)}</td>
          <td>${r.is_lossy && html`<${Icon} name="pending" label="packets are missing" /> `}${r.verdict && r.verdict !== 'smooth' ? html`<b>
            ${r.verdict}</b>` : r.verdict ?? ''}</td></tr>`;
      })}</tbody></table></div>`;
}

/** A capture that was dropped: its verdict, its ports, and the same way down to one request. */
function Captured({ answer }) {
  const { params } = useRoute();
  const tier = answer.tiers.find(t => String(t.port) === params.port) ?? answer.tiers.find(t => t.tier === 'wire_edge') ?? answer.tiers[0];
  const logs = useSql(answer.first_ts ? questions.logged(answer.first_ts, answer.last_ts) : null, { limit: 4_000 });
  if (!tier) return html`<section class="panel"><${Empty}>There is no TCP connection in it.${answer.skipped.map(s => html`<br />
    ${count(s.count)} × ${s.why}`)}<//></section>`;
  const slices = answer.slices.filter(s => s.port === tier.port);
  const rows = slices.filter(s => s.arrivals > 0 || s.completions > 0 || s.new_connections > 0).map(secondOf);
  const second = slices.find(s => s.ts === params.second);
  const began = second && answer.requests.filter(r => r.server_port === tier.port && r.request_first_ts >= second.ts
    && r.request_first_ts < end(second)).slice(0, 200);
  return html`
    <${Panel} title="Was it us?" aside=${html`<span class="aside">
      ${count(answer.packets)} packets, ${duration(answer.duration_seconds ?? 0)} from ${answer.first_ts
        ? time(answer.first_ts, { isLong: true, digits: 0 }) : ''}</span>`}>
      <p class=${`wire-verdict is-${answer.verdict}`}><b>${answer.answer}</b> <span class="aside">${answer.why}</span></p>
      ${answer.tiers.map(t => html`<p key=${t.port} class="wire-port"><button type="button" aria-pressed=${t === tier}
        class=${t === tier ? 'is-on' : ''} onClick=${() => setParams({ port: t.port, second: '', request: '' })}>port ${t.port}</button>
        <b>${t.verdict}</b> <span>${t.why}</span> <span class="aside">
          ${t.protocol}, ${t.tier === 'wire_upstream' ? 'edge to upstream' : 'client to edge'}, ${count(t.requests)} requests</span></p>`)}
      ${answer.tap_drops > 0 && html`<p class="old"><${Icon}
        name="pending" />the tap lost ${count(answer.tap_drops)} packets: what the numbers say may be less than what was</p>`}
    <//>
    <${Panel} title=${`Port ${tier.port}: arrivals, completions and concurrency`}><${Chart} answer=${together(slices, objects(logs.data))}
      height=${260} /><//>
    <${Panel} title="Seconds">
      ${second && html`<div class="wire-second" aria-label="requests of this second">
        <h3>Requests that began at ${time(second.ts, { digits: 1 })} UTC, slowest first</h3>
        <${Requests} rows=${began} chosen=${params.request} childrenOf=${r => html`<${Timeline} request=${r}
          children=${answer.requests.filter(c => c.parent_source_offset === r.source_offset).sort((a,
            b) => (a.request_first_ts < b.request_first_ts ? -1 : 1))} />`} /></div>`}
      <${Seconds} rows=${rows} chosen=${params.second} />
      ${answer.request_count > answer.requests.length && html`<p
        class="aside">one by one: the ${count(answer.requests.length)} slowest of ${count(answer.request_count)} requests</p>`}
    <//>`;
}

/** A slice of a capture under the names of the table. */
const secondOf = s => ({ ...s, is_lossy: s.missed_by_tap > 0, think_p95_seconds: s.think_seconds_p95,
  transfer_p95_seconds: s.transfer_seconds_p95, syn_wait_p95_seconds: s.connect_seconds_p95 });

const end = slice => new Date(Date.parse(slice.ts) + slice.width_seconds * 1000).toISOString();

/** Slices of a capture with the logs' completions of the same seconds, as an answer that a chart takes. */
function together(slices, logs) {
  const columns = [{ name: 'ts', kind: 'timestamp', unit: 'ts' },
    ...['arrivals', 'completions', 'logged_completions', 'concurrency'].map(name => ({ name, kind: 'float', unit: '' }))];
  const of = new Map(logs.map(l => [Date.parse(l.ts), l.completions]));
  const rows = slices.map(s => [s.ts, s.arrivals, s.completions, of.get(Date.parse(s.ts)) ?? null, s.concurrency]);
  return { columns, rows, row_count: rows.length, is_truncated: false, elapsed_seconds: 0 };
}
