// @ts-check
// The log files that weir follows, where it learned their format, and how far behind it is.
import { html } from '../vendor/preact-htm.js';
import { link } from '../router.js';
import { size, count } from '../format.js';
import { Empty, Panel, Skeleton } from '../parts/panel.js';
import { Icon } from '../parts/icon.js';

/** @param {{sources?: any[]}} props `log_sources` of /api/status */
export const Watched = ({ sources }) => html`
  <${Panel} id="watched" title="Log files"
    sql=${"select source, program, count(*) as lines from (\n  select source, program from request where ts > now() - interval '1 hour'\n  union all select source, program from log where ts > now() - interval '1 hour')\ngroup by 1, 2 order by 3 desc"}
    aside=${html`<span class="aside">from the servers' configuration, or --tail</span>`}>
    ${!sources ? html`<${Skeleton} />` : !sources.length
      ? html`<${Empty}>No log files found. Name one: <code>weir up --tail '/var/log/app/*.log'</code><//>` : html`
    <div class="scroll"><table class="list">
      <thead><tr><th scope="col">file</th><th scope="col">program</th><th scope="col">format</th><th scope="col">found in</th><th
        scope="col" class="number">lines</th><th scope="col" class="number">unparsed</th><th scope="col" class="number">behind</th></tr>
          </thead>
      <tbody>${sources.map(s => html`<tr key=${`${s.path} ${s.program}`} data-row tabindex="-1">
        <td class="mono"><a href=${link('logs', { q: `source:"${s.path}"` })}>${s.path}</a>
          ${s.error && html`<p class="row-error"><${Icon} name="mail" />${s.error}</p>`}</td>
        <td>${s.program ?? '–'}</td><td>${s.format}</td><td class="mono">${s.found_in ?? '–'}</td><td class="number">${count(s.lines ?? 0)}
          </td>
        <td class="number">${s.rejects ? html`<a href=${link('logs', { q: `kind:reject source:"${s.path}"` })}>${count(s.rejects)}</a>` : 0}
          </td><td class="number">${size(s.lag_bytes ?? 0)}</td></tr>`)}</tbody>
    </table></div>`}
  <//>`;
