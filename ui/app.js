// @ts-check
// The shell: header, banners, keyboard, and the view that the address names. A new view is a new file and a line in VIEWS.
import { html, render, useEffect, useErrorBoundary, useState } from './vendor/preact-htm.js';
import { check } from './api.js';
import { useApi, useConnection, useTick } from './hooks.js';
import { ago, duration, time } from './format.js';
import { link, setParams, useRoute } from './router.js';
import { Icon } from './parts/icon.js';
import { Problem } from './parts/panel.js';
import { Help } from './views/help.js';
import { Actions } from './views/actions.js';
import { Checks } from './views/checks.js';
import { Overview } from './views/overview.js';
import { Compare } from './views/compare.js';
import { Edge } from './views/edge.js';
import { Findings } from './views/findings.js';
import { Host } from './views/host.js';
import { Incidents } from './views/incidents.js';
import { Logs } from './views/logs.js';
import { OnCall } from './views/oncall.js';
import { Parse } from './views/parse.js';
import { Slos } from './views/slos.js';
import { Sql } from './views/sql.js';
import { Tier } from './views/tier.js';
import { Wire } from './views/wire.js';

const VIEWS = [
  { id: 'overview', key: 'o', title: 'Overview', view: Overview },
  { id: 'findings', key: 'f', title: 'Findings', view: Findings },
  { id: 'incidents', key: 'i', title: 'Incidents', view: Incidents },
  { id: 'oncall', key: 'n', title: 'On call', view: OnCall },
  { id: 'checks', key: 'h', title: 'Checks', view: Checks },
  { id: 'slos', key: 'b', title: 'SLOs', view: Slos },
  { id: 'actions', key: 'a', title: 'Actions', view: Actions },
  { id: 'logs', key: 'l', title: 'Logs', view: Logs },
  { id: 'edge', key: 'e', title: 'Edge', view: Edge },
  { id: 'wire', key: 'w', title: 'Wire', view: Wire },
  { id: 'sql', key: 's', title: 'SQL', view: Sql },
  { id: 'compare', key: 'c', title: 'Compare', view: Compare },
  { id: 'parse', key: 'p', title: 'Parse', view: Parse },
];
// Reached from another view, and shown under it.
const DETAIL_VIEWS = [{ id: 'tier', under: 'overview', view: Tier }, { id: 'host', under: 'overview', view: Host }];
const OLD_SAMPLE_SECONDS = 20;

function App() {
  const route = useRoute();
  const [isHelp, setHelp] = useState(false);
  const detail = DETAIL_VIEWS.find(v => v.id === route.view);
  const current = VIEWS.find(v => v.id === (detail?.under ?? route.view)) ?? VIEWS[0];
  const view = detail?.view ?? current.view;
  useEffect(() => { document.title = `${current.title} · weir`; }, [current]);
  useEffect(() => keyboard(setHelp), []);
  return html`
    <a class="skip" href="#main" onClick=${e => { e.preventDefault(); document.getElementById('main')?.focus(); }}>Skip to the content</a>
    <${Header} current=${current} host=${route.params.host} />
    <${Banners} />
    <main id="main" tabindex="-1"><${Guard} key=${route.view}><${view} /><//></main>
    ${isHelp && html`<${Help} onClose=${() => setHelp(false)} />`}`;
}

/** A view that throws takes only itself down. */
function Guard({ children }) {
  const [error, reset] = useErrorBoundary();
  return error ? html`<section class="panel"><${Problem} error=${error} reload=${reset} title="this view broke" /></section>` : children;
}

function Header({ current, host }) {
  const { status } = useConnection();
  const findings = useApi('/api/findings', 5_000);
  const firing = (findings.data?.findings ?? []).filter(f => f.state === 'firing' && f.class !== 'note');
  const hosts = status?.hosts ?? [];
  return html`
    <header class="top">
      <a class="brand" href="#/overview" aria-label="weir, overview"><svg viewBox="0 0 32 32" aria-hidden="true"><path
        d="M4 11c3 0 3 2 6 2s3-2 6-2v10c3 0 3 2 6 2s3-2 6-2" /></svg>weir</a>
      <nav aria-label="views">${VIEWS.map(v => html`<a key=${v.id} href=${link(v.id, { host })}
        aria-current=${v === current ? 'page' : undefined} title=${`g ${v.key}`}>${v.title}
        ${v.id === 'findings' && firing.length > 0 ? html`<span class="count" aria-label=${`${firing.length} firing`}>${firing.length}
          </span>` : ''}</a>`)}</nav>
      <div class="top-right">
        ${hosts.length > 1 ? html`<select aria-label="host" value=${host ?? ''} onChange=${e => setParams({ host: e.currentTarget.value })}>
          <option value="">all ${hosts.length} hosts</option>
          ${hosts.map(h => html`<option key=${h.host} value=${h.host} selected=${h.host === host}>${h.host}</option>`)}</select>` : ''}<a
            class="host" href=${link('host', {}, host || status?.host || '')} title="this host on one page">${host || status?.host || ''}
              </a>
        <${Clock} />
        <button type="button" class="plain" onClick=${switchTheme} aria-label="dark or light" title="dark or light"><${Icon} name="theme" />
          </button>
        <button type="button" class="plain" onClick=${() => dispatchEvent(new CustomEvent('weir-help'))} aria-label="keyboard and help"
          title="help (?)"><${Icon} name="help" /></button>
      </div>
    </header>`;
}

function Clock() {
  useTick(1_000);
  const { is_lost } = useConnection();
  const minutes = -new Date().getTimezoneOffset();
  const local = `${minutes < 0 ? '-'
    : '+'}${String(Math.floor(Math.abs(minutes) / 60)).padStart(2, '0')}:${String(Math.abs(minutes) % 60).padStart(2, '0')}`;
  return html`<time class=${is_lost ? 'clock is-lost' : 'clock'} title=${`All times are UTC. This browser's own offset is UTC${local}.`}>
    ${new Date().toISOString().slice(11, 19)}<span> UTC+00:00</span></time>`;
}

function Banners() {
  useTick(1_000);
  const c = useConnection();
  const now = Date.now();
  const old = (c.status?.hosts ?? []).filter(h => h.last_ts
    && (Date.parse(c.status.now) - Date.parse(h.last_ts)) / 1000 > OLD_SAMPLE_SECONDS);
  const store = c.status?.store;
  return html`
    <div class="banners" role="status">
      ${c.is_lost && html`<p class="banner banner-lost"><${Icon} name="lost" /><span>
        <b>weir is not responding.</b> ${c.last_ok ? html`What you see is from ${time(new Date(c.last_ok).toISOString(),
          { digits: 0 })} UTC, ${ago(c.last_ok, now)}.` : 'No data yet.'}
        ${c.retry_at && c.retry_at > now ? ` Asking again in ${Math.ceil((c.retry_at - now) / 1000)} s.` : ' Asking again …'}</span><button
          type="button" onClick=${check}>Try now</button></p>`}
      ${c.problem && html`<p class="banner banner-old"><${Icon} name="mail" /><span><b>weir has problems:</b> ${c.problem}</span></p>`}
      ${!c.is_lost && old.map(h => html`<p key=${h.host} class="banner banner-old"><${Icon} name="pending" /><span><b>
        ${h.host} is silent:</b> its newest row is ${duration(Math.round((Date.parse(c.status.now) - Date.parse(h.last_ts)) / 1000))} old.</span></p>`)}
      ${store?.is_full && html`<p class="banner banner-lost"><${Icon} name="page" /><span>
        <b>The disk is full:</b> new rows wait. ${store.message ?? ''}</span></p>`}
      ${!store?.is_full && store?.message && html`<p class="banner banner-old"><${Icon} name="mail" /><span>${store.message}</span></p>`}
    </div>`;
}

function switchTheme() {
  const root = document.documentElement;
  const isDark = root.dataset.theme ? root.dataset.theme === 'dark' : matchMedia('(prefers-color-scheme: dark)').matches;
  root.dataset.theme = isDark ? 'light' : 'dark';
  try { localStorage.setItem('weir.theme', root.dataset.theme); } catch { /* storage is off: for this page only */ }
}

/** `g o`, `/`, `j`, `k`, `?`, Escape. Keys typed into a field are left alone. */
function keyboard(setHelp) {
  let went = 0;
  const down = event => {
    const target = /** @type {HTMLElement} */ (event.target);
    const isField = target.matches('input, textarea, select');
    if (event.key === 'Escape') { setHelp(false); if (isField) target.blur(); return; }
    if (isField || event.ctrlKey || event.metaKey || event.altKey) return;
    const view = event.timeStamp - went < 1_000 && VIEWS.find(v => v.key === event.key);
    if (view) { went = 0; location.hash = link(view.id); return; }
    if (event.key === 'g') went = event.timeStamp;
    else if (event.key === '/') { event.preventDefault(); focusSearch(); }
    else if (event.key === 'j' || event.key === 'k') step(event.key === 'j' ? 1 : -1);
    else if (event.key === '?') setHelp(true);
  };
  const help = () => setHelp(true);
  addEventListener('keydown', down);
  addEventListener('weir-help', help);
  return () => { removeEventListener('keydown', down); removeEventListener('weir-help', help); };
}

function focusSearch() {
  const field = /** @type {HTMLInputElement | null} */ (document.querySelector('[data-search]'));
  if (!field) { location.hash = '#/logs'; setTimeout(() => /** @type {HTMLElement | null} */ (document.querySelector('[data-search]'))?.focus(), 50); return; }
  field.focus();
  field.select();
}

function step(by) {
  const rows = /** @type {HTMLElement[]} */ ([...document.querySelectorAll('main [data-row]')]);
  const at = rows.indexOf(/** @type {HTMLElement} */ (document.activeElement));
  rows[Math.min(rows.length - 1, Math.max(0, at + by))]?.focus();
}

check();
render(html`<${App} />`, /** @type {HTMLElement} */ (document.getElementById('app')));
