// @ts-check
// SQL: an editor, the tables with their docs, the answer as table, chart or file.
import { html, useEffect, useState } from '../vendor/preact-htm.js';
import { forecastSql, runFile, runSql } from '../api.js';
import { useApi, useQuestion } from '../hooks.js';
import { count, duration, size } from '../format.js';
import { setParams, useRoute } from '../router.js';
import { Icon } from '../parts/icon.js';
import { Chart, canChart } from '../parts/chart.js';
import { Grid } from '../parts/grid.js';
import { Empty, Problem, Skeleton, States } from '../parts/panel.js';

const START = `select date_bin(interval '10 seconds', ts) as ts, count(*) as requests
from request
where ts > now() - interval '15 minutes'
group by 1 order by 1`;
const LIMIT = 10_000;
const HISTORY_AT_MOST = 50;

export function Sql() {
  const { params } = useRoute();
  const [text, setText] = useState(params.q ?? START);
  const { result, isRunning, run: ask, stop } = useQuestion((sql, signal) => runSql(sql, { limit: LIMIT, signal }));
  const run = sql => {
    if (!sql.trim()) return;
    remember(sql);
    ask(sql);
  };
  useEffect(() => {
    if (params.q === undefined) return;
    setText(params.q);
    run(params.q);
  }, [params.q]);
  const submit = () => { if (text === params.q) run(text); else setParams({ q: text, chart: params.chart }); };
  const insert = word => setText(old => (old.trim() ? `${old}${/\s$/.test(old) ? '' : ' '}${word}`
    : `select * from ${word}\norder by ts desc limit 100`));
  return html`
    <div class="sql">
      <${Schema} onPick=${insert} onQuery=${sql => setParams({ q: sql, chart: '' })} />
      <div class="sql-main">
        <section class="panel editor" aria-label="query">
          <textarea data-search spellcheck=${false} aria-label="SQL query" value=${text}
            rows=${Math.min(18, Math.max(6, text.split('\n').length + 1))} onInput=${e => setText(e.currentTarget.value)}
              onKeyDown=${e => keys(e, submit)} />
          <footer>
            <button type="button" class="primary" onClick=${submit} disabled=${isRunning}><${Icon} name="play" />Run <kbd>Ctrl Enter</kbd>
              </button>
            ${isRunning && html`<button type="button" onClick=${stop}>Stop</button>`}
            <${Forecast} sql=${text} />
            <${History} onPick=${sql => setParams({ q: sql, chart: '' })} />
          </footer>
        </section>
        <${Result} result=${result} isRunning=${isRunning} isChart=${params.chart === '1'} />
      </div>
    </div>`;
}

function keys(event, submit) {
  if (event.key === 'Enter' && (event.ctrlKey || event.metaKey)) { event.preventDefault(); submit(); }
}

// What the query would read, said when asked: for a bucket, planning itself may make requests.
function Forecast({ sql }) {
  const [said, setSaid] = useState(/** @type {any} */ (null));
  useEffect(() => setSaid(null), [sql]);
  const ask = () => forecastSql(sql).then(({ tiers }) => setSaid({ text: tiers.map(reads).join('; ') }),
    error => setSaid({ text: error.message, hint: error.hint }));
  return html`
    <button type="button" onClick=${ask} disabled=${!sql.trim()}>Tables it reads</button>
    ${said && html`<span class="aside" role="status" title=${said.hint}>${said.text}</span>`}`;
}

function reads(tier) {
  const money = tier.usd === null ? '' : `, ${tier.usd < 0.01 ? 'less than 0.01' : tier.usd.toFixed(2)} USD`;
  return `${tier.place ?? 'this disk'}: at most ${count(tier.files)} files, ${size(tier.bytes)}, about ${count(tier.reads)} reads${money}`;
}

function Result({ result, isRunning, isChart }) {
  const [fileError, setFileError] = useState(/** @type {any} */ (null));
  if (!result) return isRunning ? html`<section class="panel"><${Skeleton} lines=${8} /></section>` : html`<section class="panel">
    <${Empty}>Run a query, or pick a table on the left. All times are UTC.<//></section>`;
  if (result.error) return html`<section class="panel"><${Problem} error=${result.error} title="cannot run the query" /></section>`;
  const { answer, question: sql } = result;
  const hasChart = canChart(answer);
  const download = /** @param {'csv' | 'parquet'} format */ format => runFile(sql, format).then(blob => save(blob, format), setFileError);
  return html`
    <section class=${`panel result${isRunning ? ' is-old' : ''}`} aria-label="answer">
      <header>
        <h2>${count(answer.row_count)} ${answer.row_count === 1 ? 'row' : 'rows'}</h2>
        <span class="aside">${duration(answer.elapsed_seconds)}${answer.is_truncated ? `, cut at ${count(LIMIT)} rows` : ''}</span>
        <span class="tools">
          ${hasChart && html`<button type="button" aria-pressed=${isChart} class=${isChart ? 'is-on' : ''}
            onClick=${() => setParams({ chart: isChart ? '' : '1' })}><${Icon} name="chart" />Chart</button>`}
          <button type="button" title="all rows, as text" onClick=${() => download('csv')}><${Icon} name="down" />CSV</button>
          <button type="button" title="all rows, for pandas, DuckDB and Spark" onClick=${() => download('parquet')}><${Icon}
            name="down" />Parquet</button>
        </span>
      </header>
      ${fileError && html`<${Problem} error=${fileError} title="cannot create the file" />`}
      ${isChart && hasChart && answer.rows.length > 0 && html`<${Chart} answer=${answer} height=${260} />`}
      ${isPlan(answer) ? html`<${Plan} rows=${answer.rows} />` : answer.rows.length ? html`<${Grid} answer=${answer} label="answer" />`
        : html`<${Empty}>The query returned no rows.<//>`}
    </section>`;
}

/** Whether it is what `explain` answers: trees of long lines, which no table can hold. @param {import('../api.js').Answer} answer */
const isPlan = answer => answer.columns.map(column => column.name).join() === 'plan_type,plan';

function Plan({ rows }) {
  return html`<dl class="plan">${rows.map(([name, plan]) => html`<div key=${name}><dt>${name}</dt><dd><pre>${plan}</pre></dd></div>`)}
    </dl>`;
}

function save(blob, format) {
  const anchor = document.createElement('a');
  anchor.href = URL.createObjectURL(blob);
  anchor.download = `weir-${new Date().toISOString().slice(0, 19).replaceAll(':', '')}.${format}`;
  anchor.click();
  setTimeout(() => URL.revokeObjectURL(anchor.href), 10_000);
}

function Schema({ onPick, onQuery }) {
  const loaded = useApi('/api/tables');
  const [filter, setFilter] = useState('');
  const fits = t => !filter || t.name.includes(filter) || t.columns.some(c => c.name.includes(filter));
  return html`
    <aside class="panel schema" aria-label="tables">
      <header><h2>Tables</h2></header>
      <input class="filter" type="search" aria-label="filter tables and columns" placeholder="table or column" value=${filter}
        onInput=${e => setFilter(e.currentTarget.value.trim().toLowerCase())} />
      <${States} loaded=${loaded} lines=${10}>
        ${data => html`${data.tables.filter(fits).map(t => html`
          <details key=${t.name} open=${filter.length > 2 ? true : undefined}>
            <summary title=${t.doc}><${Icon} name="right" /><b>${t.name}</b><span class="aside">
              ${typeof t.row_count === 'number' ? count(t.row_count) : 'view'}</span></summary>
            <p>${t.doc} <i>${t.grain}.</i></p>
            <p class="schema-tools"><button type="button"
              onClick=${() => onQuery(`select * from ${t.name}\norder by ts desc limit 100`)}>newest rows</button></p>
            <ul>${t.columns.map(c => html`<li key=${c.name}><button type="button" title=${c.doc} onClick=${() => onPick(c.name)}><code>
              ${c.name}</code><small>${c.kind}${c.unit && c.unit !== 'ts' ? `, ${c.unit}` : ''}${c.is_nullable ? ', NULL' : ''}</small>
                </button></li>`)}</ul>
          </details>`)}`}
      <//>
    </aside>`;
}

const stored = () => { try { return JSON.parse(localStorage.getItem('weir.sql') ?? '[]'); } catch { return []; } };

function remember(sql) {
  try { localStorage.setItem('weir.sql', JSON.stringify([sql, ...stored().filter(old => old !== sql)].slice(0,
    HISTORY_AT_MOST))); } catch { /* storage is off: no history */ }
}

function History({ onPick }) {
  const [, renew] = useState(0);
  const queries = stored();
  return html`<label class="sql-history">history <select aria-label="earlier queries" onFocus=${() => renew(n => n + 1)}
    onChange=${e => { if (e.currentTarget.value) onPick(queries[Number(e.currentTarget.value) - 1]); e.currentTarget.value = ''; }}>
    <option value="">${queries.length ? `${queries.length} earlier` : 'none yet'}</option>
    ${queries.map((sql, i) => html`<option key=${i} value=${i + 1}>${sql.replace(/\s+/g, ' ').slice(0, 90)}</option>`)}</select></label>`;
}
