// @ts-check
// A time chart of an answer with a `ts` column, by uPlot. A text column splits the numbers into series.
import { html, useEffect, useMemo, useRef, useState } from '../vendor/preact-htm.js';
import uPlot from '../vendor/uPlot.esm.js';
import { useWidth } from '../hooks.js';
import { number, unitOf } from '../format.js';

const SERIES_AT_MOST = 8;
const POWERS_OF_TWO = Array.from({ length: 60 }, (_, i) => 2 ** (i - 8));
const NICE = [-6, -5, -4, -3, -2, -1].flatMap(d => [1, 2, 5].map(n => n * 10 ** d));
const SECONDS = [1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 10800, 21600, 43200, 86400, 172800, 604800, 2592000];
const DASHES = [[], [6, 3], [2, 3], [8, 3, 2, 3]];

/** Whether an answer can be drawn: a timestamp and a number. @param {import('../api.js').Answer} answer */
export const canChart = answer => timeColumn(answer) >= 0 && numberColumns(answer).length > 0;

const timeColumn = answer => answer.columns.findIndex(c => c.kind === 'timestamp');
const numberColumns = answer => answer.columns.map((c, i) => (c.kind === 'integer' || c.kind === 'float' ? i : -1)).filter(i => i >= 0);

/** uPlot's columns of an answer: times in seconds, then one array per series. @param {import('../api.js').Answer} answer */
export function toSeries(answer) {
  const at = timeColumn(answer);
  const names = answer.columns.map((c, i) => (c.kind === 'text' ? i : -1)).filter(i => i >= 0);
  const times = [...new Set(answer.rows.map(row => row[at]))].filter(Boolean).sort();
  const places = new Map(times.map((t, i) => [t, i]));
  /** @type {Map<string, {label: string, unit: string, values: (number | null)[]}>} */
  const series = new Map();
  for (const row of answer.rows) {
    const name = names.map(i => row[i]).filter(v => v !== null && v !== '').join(' ');
    for (const i of numberColumns(answer)) {
      const column = answer.columns[i];
      const label = name ? (numberColumns(answer).length > 1 ? `${name} ${column.name}` : name) : column.name;
      if (!series.has(label) && series.size >= SERIES_AT_MOST) continue;
      if (!series.has(label)) series.set(label, { label, unit: unitOf(column), values: Array(times.length).fill(null) });
      const place = places.get(row[at]);
      if (place !== undefined) series.get(label).values[place] = row[i];
    }
  }
  return { times: times.map(t => Date.parse(t) / 1000), series: [...series.values()] };
}

/**
 * Fresh figures of the same series go into the chart that is there: the reader's cursor and zoom stay.
 * @param {{answer: import('../api.js').Answer, height?: number, unit?: string, marks?: {ts: string, label: string}[], group?: string, span?: [number, number]}} props charts of one group have one cursor; `span` in ms is the time shown, else that of the figures
 */
export function Chart({ answer, height = 220, unit, marks = [], group, span }) {
  const [ref, width] = useWidth();
  const plot = useRef(/** @type {any} */ (null));
  const [theme, setTheme] = useState(0);
  useEffect(() => followTheme(() => setTheme(n => n + 1)), []);
  const { times, series } = useMemo(() => toSeries(answer), [answer]);
  const figures = [times, ...series.map(s => s.values)];
  const look = useRef({ marks, span });
  look.current = { marks, span };
  const same = JSON.stringify([group, unit, ...series.map(s => [s.label, s.unit])]);
  useEffect(() => {
    if (!width || !ref.current) return undefined;
    plot.current = new uPlot(options(width, height, series, unit, look, group), figures, ref.current);
    plot.current.shows = times;
    return () => { plot.current.destroy(); plot.current = null; };
  }, [same, width, height, theme]);
  useEffect(() => {
    const u = plot.current;
    if (!u || u.shows === times) return;
    u.shows = times;
    const { min, max } = u.scales.x;
    const isZoomed = u.whole !== undefined && (min !== u.whole[0] || max !== u.whole[1]);
    u.setData(figures, !isZoomed);
    if (isZoomed) u.setScale('x', { min, max });
    else if (!(u.cursor.left >= 0)) u.setLegend({ idx: times.length - 1 }, false);
  }, [times]);
  return html`<div class="chart" ref=${ref} role="img" aria-label="time series; the table has the same figures"></div>`;
}

function options(width, height, series, unit, look, group) {
  const css = getComputedStyle(document.documentElement);
  const color = name => css.getPropertyValue(name).trim();
  const axis = { stroke: color('--muted'), grid: { stroke: color('--line'), width: 1 }, ticks: { show: false },
    font: '11px system-ui, sans-serif' };
  const units = [...new Set(series.map(s => unit ?? s.unit))];
  return {
    width, height,
    tzDate: seconds => uPlot.tzDate(new Date(seconds * 1e3), 'Etc/UTC'),
    cursor: { points: { size: 6 }, drag: { x: true, y: false }, ...(group && { sync: { key: group, scales: ['x', null] } }) },
    legend: { live: true },
    scales: { x: { range: (u, low, high) => wholeOrZoomed(u, low, high, look.current.span) },
      ...Object.fromEntries(units.map(u => [scale(u), { range: (_, low, high) => [Math.min(0, low), high > 0 ? high * 1.08 : 1] }])) },
    axes: [{ ...axis, size: 30, space: 75, incrs: SECONDS, values: clock }, ...units.slice(0, 2).map((u, i) => ({
      ...axis, ...steps(u), scale: scale(u), side: i ? 1 : 3, size: 68, grid: i ? { show: false } : axis.grid,
        values: (_, ticks) => ticks.map(t => number(t, u)),
    }))],
    series: [
      { label: 'time (UTC)', value: (_, t) => (t ? new Date(t * 1e3).toISOString().slice(11, 19) : '–') },
      ...series.map((s, i) => ({
        label: s.label.replaceAll('_', ' '), scale: scale(unit ?? s.unit), stroke: color(`--series-${i % 8}`), width: 1.5,
          dash: DASHES[Math.floor(i / 2) % 4],
        spanGaps: false, points: { show: s.values.length < 60, size: 3.5, fill: color(`--series-${i % 8}`) },
          value: (_, v) => (v === null || v === undefined ? '–' : number(v, unit ?? s.unit)),
      })),
    ],
    hooks: { ready: [u => u.setLegend({ idx: u.data[0].length - 1 }, false)],
      draw: [u => look.current.marks.reduce((end, mark) => drawMark(u, mark, color('--muted'), end), 0)] },
  };
}

// The times shown: what was zoomed to, else the whole span (uPlot asks with the ends of the figures then).
function wholeOrZoomed(u, low, high, span) {
  const times = u.data[0];
  const [first, last] = [times[0], times[times.length - 1]];
  if (low !== first || (high !== last && first !== last)) return [low, high];
  u.whole = span ? span.map(ms => ms / 1e3) : [low, high];
  return u.whole;
}

// Ticks that are round in the unit: bytes by powers of two, durations by minutes and hours.
const steps = unit => (unit.startsWith('B') ? { incrs: POWERS_OF_TWO } : unit === 's' ? { incrs: [...NICE, ...SECONDS] } : {});
const scale = unit => `y${unit}`;

const clock = (u, ticks) => ticks.map(t => {
  const iso = new Date(t * 1e3).toISOString();
  return iso.endsWith('00:00:00.000Z') ? iso.slice(5, 10) : iso.slice(11, u.scales.x.max - u.scales.x.min < 600 ? 19 : 16);
});

/** A dashed line with a word beside it; the word is left out where it would cover the one before. Answers where it ends. */
function drawMark(u, mark, color, end) {
  const x = Math.round(u.valToPos(Date.parse(mark.ts) / 1000, 'x', true));
  if (x < u.bbox.left || x > u.bbox.left + u.bbox.width) return end;
  const { ctx } = u;
  ctx.save();
  ctx.strokeStyle = ctx.fillStyle = color;
  ctx.setLineDash([4, 4]);
  ctx.beginPath();
  ctx.moveTo(x, u.bbox.top);
  ctx.lineTo(x, u.bbox.top + u.bbox.height);
  ctx.stroke();
  ctx.font = `${11 * devicePixelRatio}px system-ui, sans-serif`;
  ctx.textBaseline = 'bottom';
  ctx.textAlign = 'left';
  const hasRoom = x > end;
  if (hasRoom) ctx.fillText(mark.label, x + 4, u.bbox.top + u.bbox.height - 4);
  const next = hasRoom ? x + ctx.measureText(mark.label).width + 8 : end;
  ctx.restore();
  return next;
}

function followTheme(changed) {
  const media = matchMedia('(prefers-color-scheme: dark)');
  const observer = new MutationObserver(changed);
  observer.observe(document.documentElement, { attributes: true, attributeFilter: ['data-theme'] });
  media.addEventListener('change', changed);
  return () => { observer.disconnect(); media.removeEventListener('change', changed); };
}
