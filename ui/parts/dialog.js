// @ts-check
// A modal question with its fields: Escape and Cancel close it, an error stays in it, and the focus returns to the button before it.
import { html, useEffect, useRef, useState } from '../vendor/preact-htm.js';
import { Icon } from './icon.js';
import { Refused } from './panel.js';

/**
 * @param {{title: string, yes: string, onYes: (form: HTMLFormElement) => Promise<void>, onClose: () => void, children?: any}} props
 * `onYes` throws what went wrong; `onClose` takes the dialog out of the page
 */
export function Dialog({ title, yes, onYes, onClose, children }) {
  const ref = useRef(/** @type {any} */ (null));
  const [state, setState] = useState(/** @type {{isRunning?: boolean, error?: any}} */ ({}));
  const isOver = useRef(false);
  // At once, since the event `close` comes late: a button pressed in between would open a dialog that it takes away again.
  const close = () => {
    if (isOver.current) return;
    isOver.current = true;
    ref.current?.close();
    onClose();
  };
  useEffect(() => {
    ref.current?.showModal();
    addEventListener('hashchange', close);
    return () => removeEventListener('hashchange', close);
  }, []);
  const submit = async event => {
    event.preventDefault();
    if (state.isRunning) return;
    setState({ isRunning: true });
    try {
      await onYes(event.currentTarget);
      close();
    } catch (error) {
      setState({ error });
    }
  };
  return html`
    <dialog ref=${ref} class="ask" aria-labelledby="ask-title" onClose=${close}
      onCancel=${e => { e.preventDefault(); close(); }}>
      <form onSubmit=${submit} aria-busy=${state.isRunning ? 'true' : undefined}>
        <header><h2 id="ask-title">${title}</h2><button type="button" class="plain" onClick=${close}
          aria-label="close"><${Icon} name="close" /></button></header>
        ${children}
        ${state.error && html`<${Refused} error=${state.error} />`}
        <footer><button type="submit" class="primary">${yes}</button><button type="button"
          onClick=${close}>Cancel</button></footer>
      </form>
    </dialog>`;
}
