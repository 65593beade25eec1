// @ts-check
// Logs: every line that was read, as a request, a log row or a reject; newest first, live while at the top.
import { html, useEffect, useMemo, useRef, useState } from '../vendor/preact-htm.js';
import { useApi, useSql } from '../hooks.js';
import { objects } from '../api.js';
import { ago, count } from '../format.js';
import { setParams, useRoute } from '../router.js';
import { KINDS, histogramSql, parseSearch, rowsSql, toggleTerm, unknownFields, whereOf } from '../search.js';
import { Icon } from '../parts/icon.js';
import { Histogram } from '../parts/histogram.js';
import { Empty, OpenSql, States } from '../parts/panel.js';
import { Facets } from './facets.js';
import { LogRow, keyOf } from './log_row.js';

export const RANGES = { '5m': ['5 min', 300], '15m': ['15 min', 900], '1h': ['1 hour', 3600], '6h': ['6 hours', 21600], '24h': ['24 hours',
  86400], '7d': ['7 days', 604800] };
const STEPS = [1, 5, 10, 15, 30, 60, 300, 600, 900, 1800, 3600, 10800, 21600];
const PAGE = 200;

/** Names and kinds of the columns of the three tables. */
export function schemaOf(tables) {
  return Object.fromEntries(KINDS.map(k => [k, new Map((tables?.find(t => t.name === k)?.columns ?? []).map(c => [c.name, c.kind]))]));
}

/** The time range of the address: its condition, its span, and whether it moves with the clock. */
function rangeOf({ range = '15m', from, to }) {
  if (from && to) return { where: `ts between timestamp '${from}' and timestamp '${to}'`, from: Date.parse(from),
    seconds: (Date.parse(to) - Date.parse(from)) / 1000, isFixed: true };
  const seconds = (RANGES[range] ?? RANGES['15m'])[1];
  return { where: `ts > now() - interval '${seconds} seconds'`, from: 0, seconds, isFixed: false };
}

const isToday = ms => !ms || new Date(ms).toISOString().slice(0, 10) === new Date().toISOString().slice(0, 10);

export function Logs() {
  const { params } = useRoute();
  const [limit, setLimit] = useState(PAGE);
  const [isReading, setReading] = useState(false); // scrolled away from the newest row
  const [open, setOpen] = useState(/** @type {Set<string>} */ (new Set()));
  const list = useRef(/** @type {any} */ (null));
  const catalog = useApi('/api/tables');
  const q = params.q ?? '';
  const range = rangeOf(params);
  const schema = useMemo(() => schemaOf(catalog.data?.tables), [catalog.data]);
  const hostPart = params.host ? ` host:"${params.host}"` : '';
  const tables = useMemo(() => whereOf(q + hostPart, range.where, schema), [q, hostPart, range.where, schema]);
  const isLive = !range.isFixed && params.live !== '0';
  const isPaused = isReading || open.size > 0;
  const sql = rowsSql(tables, limit);
  const rows = useSql(catalog.data ? sql : null, { every: isLive && !isPaused ? 1_000 : 0, limit });
  const step = STEPS.find(s => range.seconds / s <= 70) ?? 86400;
  const barsSql = histogramSql(tables, step);
  const bars = useSql(catalog.data ? barsSql : null, { every: isLive ? 5_000 : 0 });
  useEffect(() => { setLimit(PAGE); setOpen(new Set()); }, [q, range.where]);
  const top = () => { setOpen(new Set()); list.current?.scrollTo({ top: 0 }); setReading(false); };
  const toggle = key => setOpen(old => { const next = new Set(old); if (!next.delete(key)) next.add(key); return next; });
  const add = term => setParams({ q: toggleTerm(q, term) });
  const unknown = catalog.data ? unknownFields(parseSearch(q), schema) : [];
  const end = range.isFixed ? range.from + range.seconds * 1000 : bars.at ?? Date.now();
  return html`
    <div class="logs">
      <${SearchBar} q=${q} params=${params} isLive=${isLive} isFixed=${range.isFixed} catalog=${schema} />
      ${unknown.length > 0 && html`<p class="notice"><${Icon}
        name="note" />No table has a column ${unknown.map(u => html` <code>${u}
          </code>`)}. The fields are on the left of an opened row, and under <a href="#/sql">SQL</a>.</p>`}
      ${catalog.error && !catalog.data && html`<${States} loaded=${catalog}>${() => null}<//>`}
      <div class="logs-top"><${States} loaded=${bars} lines=${2}>${answer => html`
        <${Histogram} answer=${answer} from=${end - range.seconds * 1000} to=${end} step=${step * 1000} sql=${barsSql}
          onPick=${(a, b) => setParams({ from: new Date(a).toISOString(), to: new Date(b).toISOString() })} />`}<//></div>
      <div class="logs-body">
        <${Facets} tables=${tables} schema=${schema} q=${q} isReady=${!!catalog.data} onPick=${add} />
        <section class="panel logs-list" aria-label="log rows">
          <header><${Tail} isLive=${isLive} isPaused=${isPaused} rows=${rows} onTop=${top} /><${OpenSql} sql=${sql} /></header>
          <div class=${`rows${range.seconds > 43_200 || !isToday(range.from) ? ' has-dates' : ''}`} ref=${list} tabindex="-1"
            onScroll=${e => setReading(e.currentTarget.scrollTop > 30)} aria-live=${isLive && !isPaused ? 'polite' : 'off'}>
            <${States} loaded=${rows} lines=${12} isEmpty=${d => !d.rows.length} empty=${html`<${NoRows} q=${q} params=${params} />`}>
              ${answer => html`
                ${objects(answer).map(row => html`<${LogRow} key=${keyOf(row)} row=${row} isOpen=${open.has(keyOf(row))}
                  onToggle=${() => toggle(keyOf(row))} onPick=${add} />`)}
                ${answer.rows.length >= limit && limit < 5000 && html`<button type="button" class="more-rows"
                  onClick=${() => setLimit(limit * 2)}>Show ${count(limit * 2)} rows</button>`}`}
            <//>
          </div>
        </section>
      </div>
    </div>`;
}

function SearchBar({ q, params, isLive, isFixed, catalog }) {
  const [text, setText] = useState(q);
  useEffect(() => setText(q), [q]);
  const fields = [...new Set(KINDS.flatMap(k => [...catalog[k].keys()]))].sort();
  const submit = event => { event.preventDefault(); setParams({ q: text.trim() }); };
  return html`
    <form class="search" role="search" onSubmit=${submit}>
      <label class="search-box"><${Icon} name="search" />
        <input data-search name="q" value=${text} onInput=${e => setText(e.currentTarget.value)} autocomplete="off" spellcheck=${false}
          aria-label="search the logs"
          placeholder="words, or field:value, such as  status:5xx path:/cart* duration:>1 -method:HEAD" list="log-fields" />
        <datalist id="log-fields">${!text.includes(' ') && fields.map(f => html`<option key=${f} value=${`${f}:`} />`)}</datalist>
      </label>
      <button type="submit" class="primary">Search</button>
      ${isFixed ? html`<button type="button" onClick=${() => setParams({ from: '', to: '' })} title="Back to the newest rows"><${Icon}
        name="close" />${params.from.slice(11, 19)} to ${params.to.slice(11, 19)} UTC</button>`
        : html`<label>last <select aria-label="time range" value=${params.range ?? '15m'}
          onChange=${e => setParams({ range: e.currentTarget.value })}>
          ${Object.entries(RANGES).map(([name, [label]]) => html`<option key=${name} value=${name}
            selected=${name === (params.range ?? '15m')}>${label}</option>`)}</select></label>
        <button type="button" aria-pressed=${isLive} class=${isLive ? 'is-on' : ''} onClick=${() => setParams({ live: isLive ? '0' : '' })}>
          <${Icon} name=${isLive ? 'pause' : 'play'} />Live</button>`}
    </form>`;
}

function Tail({ isLive, isPaused, rows, onTop }) {
  const age = rows.at ? ago(rows.at) : '';
  if (isLive && isPaused) return html`<h2><${Icon} name="pause" />Paused while you read</h2><button type="button" class="resume"
    onClick=${onTop}>Newest rows</button>`;
  if (isLive) return html`<h2><i class="pulse" />Live</h2><span class="aside">newest first, live</span>`;
  return html`<h2>Rows</h2><span class="aside">newest first, as of ${age}</span>`;
}

const NoRows = ({ q, params }) => html`
  <p><b>No row ${q ? 'matches' : 'was read'} in this time range.</b></p>
  ${q && html`<p><button type="button" onClick=${() => setParams({ q: '' })}>Clear the search</button></p>`}
  ${!params.from && params.range !== '24h' && html`<p><button type="button"
    onClick=${() => setParams({ range: '24h' })}>Show the last 24 hours</button></p>`}
  ${!q && html`<p>The files that weir reads are under <a
    href="#/overview">Overview, Log files</a>; name more with <code>weir up --tail GLOB</code>.</p>`}`;
