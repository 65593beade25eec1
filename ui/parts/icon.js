// @ts-check
// Small line icons. Shape and word carry the meaning; colour only helps.
import { html } from '../vendor/preact-htm.js';

const PATHS = {
  page: 'M5.2 1.5h5.6l3.7 3.7v5.6l-3.7 3.7H5.2l-3.7-3.7V5.2zM8 4.6v4.2M8 11.2v.2',
  mail: 'M8 1.8 15 14H1zM8 6v4M8 11.9v.2',
  note: 'M8 1.5a6.5 6.5 0 1 1 0 13 6.5 6.5 0 0 1 0-13zM8 7.2v4M8 4.8V5',
  ok: 'M8 1.5a6.5 6.5 0 1 1 0 13 6.5 6.5 0 0 1 0-13zM5 8.2l2.1 2.1L11.2 6',
  pending: 'M8 1.5a6.5 6.5 0 1 1 0 13 6.5 6.5 0 0 1 0-13zM8 4.5V8l2.4 1.6',
  lost: 'M2 2l12 12M1 6a10 10 0 0 1 4-2.3M15 6a10 10 0 0 0-6.5-3M3.6 9a6 6 0 0 1 3-1.7M12.4 9l-.6-.6M8 12.6v.2',
  copy: 'M5.5 5.5h8v9h-8zM10.5 5.5v-4h-8v9h3',
  sql: 'M2 4l4 4-4 4M8 12.5h6',
  down: 'M3.5 6 8 10.5 12.5 6',
  right: 'M6 3.5 10.5 8 6 12.5',
  left: 'M10 3.5 5.5 8 10 12.5',
  play: 'M4.5 3v10l8-5z',
  pause: 'M5 3v10M11 3v10',
  close: 'M3.5 3.5l9 9M12.5 3.5l-9 9',
  plus: 'M8 3v10M3 8h10',
  minus: 'M3 8h10',
  chart: 'M2 13.5h12M3 11l3-4 3 2 4-6',
  theme: 'M8 1.5a6.5 6.5 0 1 0 0 13zM8 1.5a6.5 6.5 0 0 1 0 13',
  help: 'M8 1.5a6.5 6.5 0 1 1 0 13 6.5 6.5 0 0 1 0-13zM6 6.2a2 2 0 1 1 2.6 2c-.5.2-.6.5-.6 1.1M8 11.4v.2',
  search: 'M7 2a5 5 0 1 1 0 10A5 5 0 0 1 7 2zM10.8 10.8 14.5 14.5',
};

/** @param {{name: keyof typeof PATHS | string, label?: string}} props `label` for icons that stand without a word */
export const Icon = ({ name, label }) => html`
  <svg class="icon icon-${name}" viewBox="0 0 16 16" role=${label ? 'img' : undefined} aria-label=${label}
    aria-hidden=${label ? undefined : 'true'}>
    <path d=${PATHS[name] ?? PATHS.note} />
  </svg>`;

/** A finding's class and state as icon and words. @param {{finding: any}} props */
export function Badge({ finding }) {
  const isFiring = finding.state === 'firing';
  const look = finding.state === 'resolved' ? 'ok' : isFiring ? finding.class : 'pending';
  return html`<span class="badge badge-${look}"><${Icon} name=${look} />${isFiring ? finding.class : finding.state}</span>`;
}

const INCIDENT_LOOKS = { acked: ['pending', 'acknowledged'], resolved: ['ok', 'resolved'], merged: ['note', 'merged'] };

/** An incident's state as icon and word, while it is open in the colour of its class. @param {{incident: any}} props */
export function IncidentState({ incident }) {
  const [look, word] = INCIDENT_LOOKS[incident.state] ?? [incident.class, incident.state];
  return html`<span class="badge badge-${look}"><${Icon} name=${look} />${word}</span>`;
}

/** The class of an incident or finding. @param {{name: string}} props */
export const ClassWord = ({ name }) => html`<span class="class-word class-${name}"><${Icon} name=${name} />${name}</span>`;
