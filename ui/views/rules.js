// @ts-check
// The rules that are loaded, how each fares, and what each says.
import { html, useState } from '../vendor/preact-htm.js';
import { useApi } from '../hooks.js';
import { ago, duration } from '../format.js';
import { Badge, Icon } from '../parts/icon.js';
import { OpenSql, Panel, States, prose } from '../parts/panel.js';
import { Replay, Threshold } from './rule_past.js';

export function Rules() {
  const loaded = useApi('/api/rules', 5_000);
  return html`
    <${Panel} title="Rules" aside=${html`<span class="aside">each is one SQL file; a directory of your own overrides them</span>`}>
      <${States} loaded=${loaded} lines=${8} isEmpty=${d => !d.rules.length} empty="No rules loaded.">
        ${data => html`<ul class="rules">${data.rules.map(rule => html`<${Rule} key=${rule.id} rule=${rule} />`)}</ul>`}
      <//>
    <//>`;
}

function Rule({ rule }) {
  const [isOpen, setOpen] = useState(false);
  const state = rule.error ? html`<span class="badge badge-mail"><${Icon} name="mail" />broken</span>`
    : rule.state === 'inactive' ? html`<span class="badge badge-ok"><${Icon} name="ok" />silent</span>` : html`<${Badge}
      finding=${{ state: rule.state, class: rule.class }} />`;
  return html`
    <li><details open=${isOpen} onToggle=${e => setOpen(e.currentTarget.open)}>
      <summary data-row><${Icon} name="right" />${state}<code>${rule.id}</code><span class="rule-title">${rule.title}</span>
        <span class="aside">${rule.judged ? `${rule.real} of ${rule.judged} judged findings were real${rule.may_page ? ''
          : ', no longer pages'}; ` : ''}${rule.tier}, ${rule.class}${rule.last_run_ts
            ? `, ran ${ago(rule.last_run_ts)} in ${duration(rule.last_run_seconds ?? 0)}` : ''}</span></summary>
      ${isOpen && html`<div class="rule-text">
        ${rule.error && html`<p class="row-error" role="alert"><${Icon} name="mail" />${rule.error}</p>`}
        <dl>${[['why', rule.why], ['look at', rule.look_at], ['silent when', rule.silent_when], ['fix', rule.fix], ['source', rule.source],
          ['fires after', duration(rule.for_seconds ?? 0)], ['origin', rule.origin]]
          .filter(([, text]) => text).map(([name, text]) => html`<div key=${name}><dt>${name}</dt><dd>${prose(text)}</dd></div>`)}</dl>
        ${rule.sql && html`${rule.has_threshold && html`<${Threshold} id=${rule.id} />`}<${Replay} id=${rule.id} />`}
        <pre tabindex="0">${rule.sql}</pre><${OpenSql} sql=${(rule.sql ?? '').replaceAll('$now', 'now()')} /></div>`}
    </details></li>`;
}
