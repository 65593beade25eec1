// @ts-check
// Keys and the search language on one card.
import { html, useEffect, useRef } from '../vendor/preact-htm.js';
import { Icon } from '../parts/icon.js';

const KEYS = [['g o', 'overview'], ['g f', 'findings'], ['g i', 'incidents'], ['g n', 'on call'], ['g h', 'checks'], ['g b', 'SLOs and budgets'], ['g a', 'actions'], ['g l', 'logs'], ['g e', 'edge'],
  ['g w', 'wire'], ['g s', 'SQL'], ['g c', 'compare'], ['g p', 'parse'], ['/', 'search or query'], ['j  k', 'next, previous row'], ['Enter', 'open the row'],
    ['Ctrl Enter', 'run the query'], ['?', 'this card'], ['Esc', 'close, leave a field']];
const SEARCH = [['timeout', 'the word anywhere in the line'], ['"connection reset"', 'the words in this order'],
  ['status:5xx', 'a status class'], ['path:/cart*', '* stands for anything'], ['duration:>0.5', 'slower than 0.5 s'],
  ['severity:error', 'log rows of one severity'], ['kind:reject', 'unparsed lines'], ['-method:HEAD', 'without these'],
    ['attrs.region:eu', 'a field without a column']];

/** @param {{onClose: () => void}} props */
export function Help({ onClose }) {
  const ref = useRef(/** @type {any} */ (null));
  useEffect(() => {
    const close = () => ref.current?.close();
    ref.current?.showModal();
    addEventListener('hashchange', close);
    return () => removeEventListener('hashchange', close);
  }, []);
  return html`
    <dialog ref=${ref} class="help" aria-labelledby="help-title" onClose=${onClose}
      onClick=${e => { if (e.target === ref.current) ref.current.close(); }}>
      <header><h2 id="help-title">Keyboard and search</h2><button type="button" class="plain" onClick=${() => ref.current.close()}
        aria-label="close"><${Icon} name="close" /></button></header>
      <div class="help-body">
        <dl>${KEYS.map(([key, text]) => html`<div key=${key}><dt><kbd>${key}</kbd></dt><dd>${text}</dd></div>`)}</dl>
        <dl>${SEARCH.map(([term, text]) => html`<div key=${term}><dt><code>${term}</code></dt><dd>${text}</dd></div>`)}</dl>
      </div>
      <p>Every panel shows the result of one query: <b>open as SQL</b> leads to it. All times are UTC. A dash means not measured, 0 means measured as zero.</p>
    </dialog>`;
}
