// @ts-check
// A small line of the last minutes: SVG, one or two series, the value under the pointer in words.
import { html, useState } from '../vendor/preact-htm.js';
import { useWidth } from '../hooks.js';
import { time, value } from '../format.js';

const HEIGHT = 38;

/** @param {{answer: import('../api.js').Answer, label: string, from?: number, to?: number}} props columns: ts, then one or two numbers */
export function Spark({ answer, label, from, to }) {
  const [ref, width] = useWidth();
  const [at, setAt] = useState(-1);
  const times = answer.rows.map(row => Date.parse(row[0]));
  const series = answer.columns.slice(1);
  const start = from ?? times[0];
  const end = to ?? times[times.length - 1];
  const top = Math.max(...answer.rows.flatMap(row => row.slice(1).map(Number)), Number.MIN_VALUE);
  const x = t => ((t - start) / Math.max(end - start, 1)) * Math.max(width - 2, 1) + 1;
  const y = v => HEIGHT - 2 - (v / top) * (HEIGHT - 6);
  const move = event => {
    const left = event.clientX - event.currentTarget.getBoundingClientRect().left;
    setAt(nearest(times, start + (left / Math.max(width, 1)) * (end - start)));
  };
  const row = answer.rows[at];
  const shown = row ?? answer.rows[answer.rows.length - 1];
  return html`
    <figure class="spark" ref=${ref}>
      <svg width=${width} height=${HEIGHT} role="img" aria-label=${`${label}, last value ${shown ? value(shown[1], series[0]) : 'none'}`}
           onPointerMove=${move} onPointerLeave=${() => setAt(-1)}>
        <line class="spark-base" x1="0" x2=${width} y1=${HEIGHT - 1.5} y2=${HEIGHT - 1.5} />
        ${width > 0 && series.map((column, i) => html`<g key=${column.name} class="spark-${i}">${runs(answer.rows, i + 1).map(run => html`
          ${i === 0 && html`<path class="spark-area" d=${`${line(run, times, i + 1, answer.rows, x,
            y)}L${x(times[run[run.length - 1]])},${HEIGHT - 2}L${x(times[run[0]])},${HEIGHT - 2}Z`} />`}
          <path class="spark-line" d=${line(run, times, i + 1, answer.rows, x, y)} />`)}</g>`)}
        ${row && html`<line class="spark-cursor" x1=${x(times[at])} x2=${x(times[at])} y1="0" y2=${HEIGHT} />`}
      </svg>
      <figcaption>${row ? html`<span>${time(row[0], { digits: 0 })}
        </span> ${series.map((c, i) => `${words(c.name)} ${value(row[i + 1], c)}`).join(' · ')}` : label}</figcaption>
    </figure>`;
}

const words = name => name.replace(/_(seconds|ratio|bytes_per_second|per_second)$/, '').replaceAll('_', ' ');

/** Indexes of neighbouring rows that are not NULL. */
function runs(rows, column) {
  const out = [];
  let run = [];
  rows.forEach((row, i) => {
    if (row[column] !== null) run.push(i);
    else if (run.length) { out.push(run); run = []; }
  });
  if (run.length) out.push(run);
  return out;
}

const line = (run, times, column, rows, x, y) =>
  run.map((i, n) => `${n ? 'L' : 'M'}${x(times[i]).toFixed(1)},${y(Number(rows[i][column])).toFixed(1)}`).join('') + (run.length === 1
    ? 'h1' : '');

function nearest(times, t) {
  let best = -1;
  times.forEach((other, i) => { if (best < 0 || Math.abs(other - t) < Math.abs(times[best] - t)) best = i; });
  return best;
}
