// @ts-check
// One box of a view with its four states: loading, error, empty, data (and data that got old).
import { html } from '../vendor/preact-htm.js';
import { Icon } from './icon.js';
import { ago } from '../format.js';
import { sqlLink } from '../router.js';

/** Link to the query of a panel. @param {{sql: string, isChart?: boolean, label?: string}} props */
export const OpenSql = ({ sql, isChart = false, label = 'open as SQL' }) => html`
  <a class="open-sql" href=${sqlLink(sql, isChart)} title="Open this panel's query in the SQL view"><${Icon} name="sql" />${label}</a>`;

/** What went wrong and what to do. @param {{error: any, reload?: () => void, title?: string}} props */
export const Problem = ({ error, reload, title = 'cannot show this' }) => html`
  <div class="state state-error" role="alert">
    <p><${Icon} name="mail" /><span><b>${title}:</b> ${error.message}</span></p>
    ${error.hint && html`<p class="hint">hint: ${error.hint}</p>`}
    ${reload && html`<button type="button" onClick=${reload}>Try again</button>`}
  </div>`;

/** Why a change was not made, beside its button. @param {{error: any}} props */
export const Refused = ({ error }) => html`
  <p class="row-error" role="alert"><${Icon} name="mail" /><span>${error.message}${error.hint && html`<br />hint: ${error.hint}`}</span></p>`;

/** @param {{lines?: number}} props */
export const Skeleton = ({ lines = 3 }) => html`
  <div class="skeleton" role="status" aria-label="loading">${Array.from({ length: lines }, (_, i) => html`<i key=${i} />`)}</div>`;

/** @param {{children?: any}} props */
export const Empty = ({ children }) => html`<div class="state state-empty">${children}</div>`;

/**
 * The states of one answer; `children` is called with the data once there is some.
 * @param {{loaded: any, isEmpty?: (data: any) => boolean, empty?: any, lines?: number, children?: any}} props
 */
export function States({ loaded, isEmpty, empty = 'Nothing here yet.', lines = 3, children }) {
  const draw = Array.isArray(children) ? children[0] : children;
  if (loaded.data === undefined) {
    return loaded.error ? html`<${Problem} error=${loaded.error} reload=${loaded.reload} />` : html`<${Skeleton} lines=${lines} />`;
  }
  const isOld = loaded.error !== null;
  return html`
    ${isOld && html`<p class="old" title=${loaded.error.message}><${Icon} name="pending" />from ${ago(loaded.at)}: ${loaded.error.message}
      </p>`}
    <div class=${isOld ? 'is-old' : undefined}>
      ${isEmpty?.(loaded.data) ? html`<${Empty}>${empty}<//>` : draw(loaded.data)}
    </div>`;
}

/** A titled box. @param {{title: any, sql?: string, isChart?: boolean, aside?: any, id?: string, children?: any}} props */
export const Panel = ({ title, sql, isChart, aside, id, children }) => html`
  <section class="panel" id=${id} aria-label=${typeof title === 'string' ? title : undefined}>
    <header><h2>${title}</h2>${aside}${sql && html`<${OpenSql} sql=${sql} isChart=${isChart} />`}</header>
    ${children}
  </section>`;

/** Text with its `code` set apart. @param {string} text */
export const prose = text => text.split('`').map((part, i) => (i % 2 ? html`<code key=${i}>${part}</code>` : part));

/** A button that copies text and confirms it. */
export function CopyButton({ text, label = 'Copy' }) {
  const copy = async event => {
    const button = event.currentTarget;
    const isDone = await navigator.clipboard?.writeText(text).then(() => true, () => false) ?? copyBySelection(text);
    button.lastChild.textContent = isDone ? 'Copied' : 'Select and copy by hand';
    setTimeout(() => { button.lastChild.textContent = label; }, 2_000);
  };
  return html`<button type="button" class="copy" onClick=${copy}><${Icon} name="copy" /><span aria-live="polite">${label}</span></button>`;
}

// Without TLS and away from localhost browsers hide `navigator.clipboard`.
function copyBySelection(text) {
  const area = document.createElement('textarea');
  area.value = text;
  document.body.append(area);
  area.select();
  const isDone = document.execCommand('copy');
  area.remove();
  return isDone;
}
