// @ts-check
// The page's state lives after the `#` of the address: `#/view/argument?key=value`, so any static server will do.
import { useEffect, useState } from './vendor/preact-htm.js';

/** @typedef {{view: string, argument: string, params: Record<string, string>}} Route */

/** @param {string} hash @returns {Route} */
export function parseRoute(hash) {
  const [path, search = ''] = hash.replace(/^#\/?/, '').split(/\?(.*)/s);
  const [view, ...rest] = path.split('/');
  return { view: view || 'overview', argument: decode(rest.join('/')), params: Object.fromEntries(new URLSearchParams(search)) };
}

function decode(text) {
  try { return decodeURIComponent(text); } catch { return text; }
}

/** @param {string} view @param {Record<string, any>} [params] @param {string} [argument] */
export function link(view, params = {}, argument = '') {
  const kept = Object.entries(params).filter(([, value]) => value !== undefined && value !== null && value !== '');
  const search = new URLSearchParams(kept).toString();
  return `#/${view}${argument ? `/${encodeURIComponent(argument)}` : ''}${search ? `?${search}` : ''}`;
}

/** Link to the SQL view with a query. @param {string} sql @param {boolean} [isChart] */
export const sqlLink = (sql, isChart = false) => link('sql', { q: sql, chart: isChart ? '1' : '' });

/** Changes some parameters of the address in place. @param {Record<string, any>} changes @param {boolean} [isReplacing] */
export function setParams(changes, isReplacing = false) {
  const route = parseRoute(location.hash);
  const hash = link(route.view, { ...route.params, ...changes }, route.argument);
  if (hash === location.hash) return;
  if (isReplacing) {
    history.replaceState(null, '', hash);
    dispatchEvent(new HashChangeEvent('hashchange'));
  } else {
    location.hash = hash;
  }
}

/** The route of now, following the address. @returns {Route} */
export function useRoute() {
  const [hash, setHash] = useState(location.hash);
  useEffect(() => {
    const follow = () => setHash(location.hash);
    addEventListener('hashchange', follow);
    follow(); // it may have changed before somebody listened
    return () => removeEventListener('hashchange', follow);
  }, []);
  return parseRoute(hash);
}
