// @ts-check
// A table of any answer. Only the rows in sight are in the document, so 100,000 rows scroll like 100.
import { html, useEffect, useRef, useState } from '../vendor/preact-htm.js';
import { exact, unitOf, value } from '../format.js';

const ROW = 26;
const MARGIN = 12;

/** @param {{answer: import('../api.js').Answer, label?: string}} props */
export function Grid({ answer, label = 'rows' }) {
  const ref = useRef(/** @type {any} */ (null));
  const [range, setRange] = useState([0, 60]);
  const follow = () => {
    const box = ref.current;
    if (!box) return;
    const first = Math.max(0, Math.floor(box.scrollTop / ROW) - MARGIN);
    const last = Math.ceil((box.scrollTop + box.clientHeight) / ROW) + MARGIN;
    setRange(old => (old[0] === first && old[1] === last ? old : [first, last]));
  };
  useEffect(follow, [answer]);
  const { columns, rows } = answer;
  const [first, last] = range;
  const isNumber = columns.map(c => c.kind === 'integer' || c.kind === 'float');
  return html`
    <div class="grid-box" ref=${ref} onScroll=${follow} tabindex="0" role="region" aria-label=${label}>
      <table class="grid" aria-rowcount=${rows.length}>
        <thead><tr>${columns.map((c, n) => html`<th key=${n} scope="col" class=${isNumber[n] ? 'number' : undefined}
          title=${`${c.kind}${unitOf(c) ? `, ${unitOf(c)}` : ''}`}>${c.name}</th>`)}</tr></thead>
        <tbody>
          ${first > 0 && html`<tr aria-hidden="true" class="gap"><td colspan=${columns.length} style=${{ height: `${first * ROW}px` }} />
            </tr>`}
          ${rows.slice(first, last).map((row, i) => html`
            <tr key=${first + i} aria-rowindex=${first + i + 1}>${row.map((cell, n) => html`
              <td key=${n} class=${cell === null ? 'null' : isNumber[n] ? 'number' : undefined} title=${exact(cell, columns[n])}>
                ${value(cell, columns[n])}</td>`)}</tr>`)}
          ${last < rows.length && html`<tr aria-hidden="true" class="gap"><td colspan=${columns.length}
            style=${{ height: `${(rows.length - last) * ROW}px` }} /></tr>`}
        </tbody>
      </table>
    </div>`;
}
