// @ts-check
// One tier in detail: its findings, then one panel per question, each a chart or a table of one query.
import { html } from '../vendor/preact-htm.js';
import { useApi, useSql } from '../hooks.js';
import { link, useRoute } from '../router.js';
import { Badge, Icon } from '../parts/icon.js';
import { Chart, canChart } from '../parts/chart.js';
import { Grid } from '../parts/grid.js';
import { Empty, Panel, States } from '../parts/panel.js';
import { scoped } from './tier_sql.js';
import { DETAILS } from './tier_details.js';
import { TIERS } from './tiers.js';
import { TIERS_BELOW } from './tiers_below.js';

const ALL = [...TIERS, ...TIERS_BELOW];

export function Tier() {
  const { params, argument } = useRoute();
  const tier = ALL.find(t => t.id === argument);
  const findings = useApi('/api/findings?state=all&limit=200', 10_000);
  const nav = html`<nav class="tabs" aria-label="tiers">${ALL.map(t => html`<a key=${t.id}
    href=${link('tier', { host: params.host }, t.id)} aria-current=${t === tier ? 'page' : undefined}>${t.title}</a>`)}</nav>`;
  if (!tier) return html`${nav}<section class="panel"><${Empty}>Unknown tier <code>${argument}</code>.<//></section>`;
  const mine = (findings.data?.findings ?? []).filter(f => tier.tiers.includes(f.tier)).slice(0, 8);
  return html`
    ${nav}
    ${mine.length > 0 && html`<section class="panel" aria-label="findings of this tier"><header><h2>Findings</h2><span
      class="aside">open and past</span></header>
      <ul class="tier-findings is-wide">${mine.map(f => html`<li key=${f.finding_id}><a href=${link('findings', {}, f.finding_id)}>
        <${Badge} finding=${f} /> ${f.summary}</a></li>`)}</ul></section>`}
    <div class="details">${DETAILS[tier.id].map(d => html`<${Detail} key=${`${tier.id} ${d.title}`} detail=${d}
      host=${params.host ?? ''} />`)}</div>
    <p class="back"><a href=${link('overview', { host: params.host })}><${Icon} name="left" />Overview</a></p>`;
}

/** @param {{detail: import('./tier_details.js').Detail, host: string}} props */
export function Detail({ detail, host }) {
  const sql = scoped(detail.sql, host);
  const loaded = useSql(sql, { every: 10_000, limit: 5000 });
  return html`
    <${Panel} title=${detail.title} sql=${sql} isChart=${detail.isChart}
      aside=${html`<span class="aside">${detail.over ?? 'last 15 min'}</span>`}>
      <${States} loaded=${loaded} lines=${6} isEmpty=${d => !d.rows.length} empty=${detail.empty ?? 'No rows in this period.'}>
        ${answer => (detail.isChart && canChart(answer) ? html`<${Chart} answer=${answer} height=${190} />` : html`<${Grid}
          answer=${answer} label=${detail.title} />`)}
      <//>
    <//>`;
}
