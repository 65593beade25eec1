// @ts-check
// Compare: times of two sets of requests, where both were measured at the same place; why the rest is not compared.
import { html, useEffect, useState } from '../vendor/preact-htm.js';
import { compareTimes } from '../api.js';
import { useQuestion } from '../hooks.js';
import { setParams, useRoute } from '../router.js';
import { Icon } from '../parts/icon.js';
import { Grid } from '../parts/grid.js';
import { Empty, Problem, Skeleton, prose } from '../parts/panel.js';

const MEASURES = [['duration_seconds', 'the whole request'], ['queue_seconds', 'waiting for a free upstream'],
  ['upstream_connect_seconds', 'connecting to the upstream'], ['upstream_header_seconds', "until the upstream's first byte"],
    ['upstream_response_seconds', "until the upstream's last byte"]];
const START = { a: "ts between now() - interval '25 hours' and now() - interval '24 hours'", b: "ts > now() - interval '1 hour'" };
const FEW_VALUES = 30;
const QUANTILES = ['p50', 'p95', 'p99'];

export function Compare() {
  const { params } = useRoute();
  const [a, setA] = useState(params.a ?? START.a);
  const [b, setB] = useState(params.b ?? START.b);
  const [measure, setMeasure] = useState(params.measure || MEASURES[0][0]);
  const { result, isRunning, run } = useQuestion(compareTimes);
  useEffect(() => {
    if (params.a === undefined || params.b === undefined) return;
    const asked = { a: params.a, b: params.b, measure: params.measure || MEASURES[0][0] };
    setA(asked.a);
    setB(asked.b);
    setMeasure(asked.measure);
    run(asked);
  }, [params.a, params.b, params.measure]);
  const ask = column => { if (a === params.a && b === params.b
    && column === params.measure) run({ a, b, measure: column }); else setParams({ a, b, measure: column }); };
  const keys = event => { if (event.key === 'Enter') { event.preventDefault(); ask(measure); } };
  const side = (label, text, set) => html`<label class="parse-field">${label}: which requests, as a condition in SQL
    <input data-search=${label === 'A' ? '' : undefined} spellcheck=${false} aria-label=${label} value=${text}
      onInput=${e => set(e.currentTarget.value)} onKeyDown=${keys} /></label>`;
  return html`
    <div class="compare">
      <section class="panel editor" aria-label="what is compared">
        ${side('A', a, setA)}${side('B', b, setB)}
        <footer><button type="button" class="primary" onClick=${() => ask(measure)} disabled=${isRunning}><${Icon}
          name="play" />Compare <kbd>Enter</kbd></button>
          <label>time <select aria-label="time" value=${measure} onChange=${e => setMeasure(e.currentTarget.value)}>
            ${MEASURES.map(([column, text]) => html`<option key=${column} value=${column} selected=${column === measure}>${text}</option>`)}
              </select></label></footer>
      </section>
      <${Result} result=${result} isRunning=${isRunning} onTake=${ask} />
    </div>`;
}

function Result({ result, isRunning, onTake }) {
  if (!result) return html`<section class="panel">${isRunning ? html`<${Skeleton} lines=${5} />`
    : html`<${Empty}>Times are compared only if the same clock served the same kind of peer: a balancer in front lowers a server's own times without making any page faster.<//>`}</section>`;
  if (result.error) return html`<section class="panel"><${Problem} error=${result.error} title="cannot compare" /></section>`;
  const { compared, refused, offered } = result.answer;
  return html`
    ${compared.length > 0 && html`<section class="panel" aria-label="compared"><header><h2>Measured at the same point</h2></header>
      <${Times} rows=${compared} /></section>`}
    ${refused.length > 0 && html`<section class="panel" aria-label="not compared"><header><h2>Not compared</h2></header>
      ${refused.map((r, i) => html`<p key=${i}><b>${r.measure}</b>: ${prose(r.why)}.</p>`)}
      ${offered.length === 0 && compared.length === 0
        && html`<p>Nothing else was measured at the same point on both sides. A client beacon would be (<code>weir edge --beacon</code>).</p>`}</section>`}
    ${offered.length > 0 && html`<section class="panel" aria-label="offered"><header><h2>These can be compared instead</h2></header>
      <${Times} rows=${offered} onTake=${onTake} /></section>`}`;
}

function Times({ rows, onTake }) {
  const answer = {
    columns: [['tier', 'text'], ['measure', 'text'], ...QUANTILES.flatMap(q => [[`${q} A`, 'float'], [`${q} B`, 'float'],
      ['change', 'text']]), ['requests A', 'integer'], ['requests B', 'integer']].map(([name, kind]) => ({ name, kind,
        unit: kind === 'float' ? 's' : '' })),
    rows: rows.map(({ tier, measure, a, b }) => [tier, measure,
      ...QUANTILES.map(q => `${q}_seconds`).flatMap(q => [a[q], b[q], change(a[q], b[q])]), a.values, b.values]),
  };
  return html`<${Grid} answer=${answer} label="times" />
    ${rows.some(({ a, b }) => Math.min(a.values, b.values) < FEW_VALUES) && html`<p
      class="aside">Some have fewer than ${FEW_VALUES} requests: their high quantiles are single requests.</p>`}
    ${onTake && html`<p>${rows.map(({ tier, measure }) => html`<button key=${tier + measure} type="button"
      onClick=${() => onTake(measure)}>Compare ${measure}</button> `)}</p>`}`;
}

function change(a, b) {
  if (a === null || b === null || a <= 0) return '–';
  const percent = Math.round((b / a - 1) * 100);
  return `${percent > 0 ? '+' : percent < 0 ? '−' : ''}${Math.abs(percent)} %`;
}
