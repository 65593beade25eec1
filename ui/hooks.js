// @ts-check
// Data for a view: asks now and again, keeps the last answer while the next one is under way or weir is gone.
import { useCallback, useEffect, useRef, useState } from './vendor/preact-htm.js';
import { currentConnection, get, runSql, watchConnection } from './api.js';

/** @typedef {{data: any, error: any, isLoading: boolean, at: number | null, reload: () => void}} Loaded */

/** Whether weir answers. */
export function useConnection() {
  const [connection, setConnection] = useState(currentConnection());
  useEffect(() => watchConnection(setConnection), []);
  return connection;
}

/**
 * What `load` gives, again every `every` ms (0 = once), and at once when `key` changes or weir is back.
 * The pause grows with a slow answer so that a page never keeps a small machine busy.
 * @param {string | null} key null = nothing to load
 * @param {(signal: AbortSignal) => Promise<any>} load
 * @param {number} every
 * @returns {Loaded}
 */
export function useLoad(key, load, every) {
  const [state, setState] = useState({ data: undefined, error: null, isLoading: true, at: null, key });
  const [round, setRound] = useState(0);
  const current = useRef(load);
  current.current = load;
  useEffect(() => {
    if (key === null) return undefined;
    const abort = new AbortController();
    let timer = 0;
    const run = async () => {
      if (document.hidden) { timer = setTimeout(run, 1_000); return; }
      const started = performance.now();
      setState(old => ({ ...old, isLoading: true }));
      try {
        const data = await current.current(abort.signal);
        if (abort.signal.aborted) return;
        setState({ data, error: null, isLoading: false, at: Date.now(), key });
      } catch (error) {
        if (abort.signal.aborted) return;
        setState(old => ({ ...old, error, isLoading: false }));
      }
      if (every) timer = setTimeout(run, Math.max(every, 3 * (performance.now() - started)));
    };
    run();
    return () => { abort.abort(); clearTimeout(timer); };
  }, [key, every, round]);
  const reload = useCallback(() => setRound(n => n + 1), []);
  useEffect(() => {
    let wasLost = currentConnection().is_lost;
    return watchConnection(c => {
      if (wasLost && !c.is_lost) reload();
      wasLost = c.is_lost;
    });
  }, [reload]);
  return { data: state.data, error: state.error, isLoading: state.isLoading || state.key !== key, at: state.at, reload };
}

/**
 * A request started by a button: the newest one counts, an earlier one is cancelled.
 * @param {(question: any, signal: AbortSignal) => Promise<any>} ask
 * @returns {{result: {question: any, answer?: any, error?: any} | null, isRunning: boolean, run: (question: any) => Promise<void>, stop: () => void}}
 */
export function useQuestion(ask) {
  const [result, setResult] = useState(/** @type {any} */ (null));
  const [isRunning, setRunning] = useState(false);
  const abort = useRef(/** @type {AbortController | null} */ (null));
  const run = async question => {
    abort.current?.abort();
    const mine = abort.current = new AbortController();
    setRunning(true);
    const next = await ask(question, mine.signal).then(answer => ({ answer }), error => ({ error }));
    if (mine.signal.aborted) return;
    setResult({ ...next, question });
    setRunning(false);
  };
  const stop = () => { abort.current?.abort(); setRunning(false); };
  useEffect(() => () => abort.current?.abort(), []);
  return { result, isRunning, run, stop };
}

/** One query, asked again every `every` ms. @param {string | null} sql @param {{every?: number, limit?: number}} [options] */
export const useSql = (sql, { every = 0, limit = 1000 } = {}) =>
  useLoad(sql, signal => runSql(sql ?? '', { limit, signal }), every);

/** One call of the API. @param {string | null} path @param {number} [every] */
export const useApi = (path, every = 0) => useLoad(path, signal => get(path ?? '', signal), every);

/** Draws again every `every` ms, for ages such as "34 s ago". @param {number} every */
export function useTick(every) {
  const [, setCount] = useState(0);
  useEffect(() => {
    const timer = setInterval(() => setCount(n => n + 1), every);
    return () => clearInterval(timer);
  }, [every]);
}

/** The width of an element, followed. @returns {[any, number]} */
export function useWidth() {
  const ref = useRef(null);
  const [width, setWidth] = useState(0);
  useEffect(() => {
    const observer = new ResizeObserver(entries => setWidth(Math.floor(entries[0].contentRect.width)));
    if (ref.current) observer.observe(ref.current);
    return () => observer.disconnect();
  }, []);
  return [ref, width];
}
