// @ts-check
// Stacked bars of counts over time, as SVG. Dragging over it picks a time range.
import { html, useState } from '../vendor/preact-htm.js';
import { useWidth } from '../hooks.js';
import { count, time } from '../format.js';
import { OpenSql } from './panel.js';

const HEIGHT = 64;

/**
 * @param {{answer: import('../api.js').Answer, from: number, to: number, step: number, sql: string, onPick: (from: number, to: number) => void}} props
 * columns: ts, then one count per class, worst last; `from`, `to`, `step` in milliseconds
 */
export function Histogram({ answer, from, to, step, sql, onPick }) {
  const [ref, width] = useWidth();
  const [drag, setDrag] = useState(/** @type {null | [number, number]} */ (null));
  const [at, setAt] = useState(/** @type {any} */ (null));
  const classes = answer.columns.slice(1).map(c => c.name);
  const top = Math.max(...answer.rows.map(sum), 1);
  const x = t => ((t - from) / (to - from)) * width;
  const bar = Math.max((step / (to - from)) * width - 1, 1);
  const when = event => from + ((event.clientX - event.currentTarget.getBoundingClientRect().left) / Math.max(width, 1)) * (to - from);
  const move = event => {
    const t = when(event);
    if (drag) setDrag([drag[0], t]);
    setAt(answer.rows.find(row => t >= Date.parse(row[0]) && t < Date.parse(row[0]) + step) ?? null);
  };
  const drop = event => {
    const end = when(event);
    if (drag && Math.abs(end - drag[0]) > (to - from) / 100) onPick(Math.min(drag[0], end), Math.max(drag[0], end));
    setDrag(null);
  };
  return html`
    <figure class="histogram" ref=${ref}>
      <svg width=${width} height=${HEIGHT} role="img" aria-label="rows over time; drag to pick a time range"
           onPointerDown=${e => { e.currentTarget.setPointerCapture(e.pointerId); setDrag([when(e), when(e)]); }} onPointerMove=${move}
             onPointerUp=${drop} onPointerLeave=${() => setAt(null)}>
        <line class="spark-base" x1="0" x2=${width} y1=${HEIGHT - 0.5} y2=${HEIGHT - 0.5} />
        ${width > 0 && answer.rows.map(row => html`<g key=${row[0]}>${stack(row).map(([i, low, high]) => html`
          <rect class="bar-${classes[i]}" x=${x(Date.parse(row[0]))} width=${bar} y=${HEIGHT - 1 - (high / top) * (HEIGHT - 4)}
            height=${Math.max(((high - low) / top) * (HEIGHT - 4), 1)} />`)}</g>`)}
        ${drag && html`<rect class="pick" x=${x(Math.min(...drag))} width=${Math.abs(x(drag[1]) - x(drag[0]))} y="0" height=${HEIGHT} />`}
      </svg>
      <figcaption>
        <span class="number">${time(new Date(from).toISOString(), { digits: 0 })}</span>
        <span>${at ? html`${time(at[0], { digits: 0 })} · ${classes.map((c, i) => at[i + 1] ? `${c} ${count(at[i + 1])}`
          : '').filter(Boolean).join(' · ')}` : classes.map(c => html`<span class="key" key=${c}><i class="key-${c}" />${c}</span>`)}</span>
        <span class="number"><${OpenSql} sql=${sql} isChart /> ${time(new Date(to).toISOString(), { digits: 0 })}</span>
      </figcaption>
    </figure>`;
}

const sum = row => row.slice(1).reduce((a, b) => a + Number(b), 0);

function stack(row) {
  let low = 0;
  return row.slice(1).map((n, i) => {
    const part = [i, low, low + Number(n)];
    low += Number(n);
    return part;
  }).filter(([, a, b]) => b > a);
}
