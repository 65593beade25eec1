// @ts-check
// Values as people read them: by the kind and unit that the API gives with each column. Times are UTC.
// Nothing is converted silently: the raw value stays in the element's title.

const DASH = '–';
const GAP = '\u202f'; // narrow no-break space between number and unit

/** @param {number} x @param {number} digits significant digits */
function short(x, digits = 3) {
  if (x === 0) return '0';
  const size = Math.abs(x);
  if (size >= 10 ** (digits - 1)) return Math.round(x).toLocaleString('en-US').replaceAll(',', GAP);
  return String(Number(x.toPrecision(digits)));
}

/** Seconds as a duration: `340 µs`, `12.5 ms`, `3.2 s`, `5 min 20 s`, `2 h 5 min`. @param {number} seconds */
export function duration(seconds) {
  const size = Math.abs(seconds);
  if (size === 0) return `0${GAP}s`;
  if (size < 0.001) return `${short(seconds * 1e6)}${GAP}µs`;
  if (size < 1) return `${short(seconds * 1e3)}${GAP}ms`;
  if (size < 90) return `${short(seconds)}${GAP}s`;
  const whole = Math.round(size);
  const [big, small, names] = whole < 5400 ? [60, 1, ['min', 's']] : whole < 172800 ? [3600, 60, ['h', 'min']] : [86400, 3600, ['d', 'h']];
  const rest = Math.floor((whole % big) / small);
  return `${seconds < 0 ? '-' : ''}${Math.floor(whole / big)}${GAP}${names[0]}${rest ? ` ${rest}${GAP}${names[1]}` : ''}`;
}

/** Bytes in powers of 1024. @param {number} bytes */
export function size(bytes) {
  const units = ['B', 'KiB', 'MiB', 'GiB', 'TiB', 'PiB'];
  let step = 0;
  let x = bytes;
  while (Math.abs(x) >= 1000 && step < units.length - 1) { x /= 1024; step += 1; }
  return `${short(x)}${GAP}${units[step]}`;
}

/** Counts: exact below 100,000, then `123 k`, `4.5 M`. @param {number} n */
export function count(n) {
  const size = Math.abs(n);
  if (size >= 1e9) return `${short(n / 1e9)}${GAP}G`;
  if (size >= 1e6) return `${short(n / 1e6)}${GAP}M`;
  if (size >= 1e5) return `${short(n / 1e3)}${GAP}k`;
  return Number.isInteger(n) ? n.toLocaleString('en-US').replaceAll(',', GAP) : short(n);
}

/** A share as percent. @param {number} x */
export const ratio = x => `${short(x * 100, Math.abs(x) >= 0.1 ? 3 : 2)}${GAP}%`;

/** The clock of a time: `12:31:05.123`, with the date when it is not today. @param {string} ts RFC 3339 */
export function time(ts, { isLong = false, digits = 3 } = {}) {
  if (!ts || ts.length < 19) return ts ?? DASH;
  const clock = ts.slice(11, digits ? 20 + digits : 19).replace(/[Z.]+$/, '');
  const isToday = ts.slice(0, 10) === new Date().toISOString().slice(0, 10);
  return isLong || !isToday ? `${ts.slice(0, 10)} ${clock}` : clock;
}

/** How long ago, roughly. @param {string | number} ts @param {number} [now] */
export function ago(ts, now = Date.now()) {
  const seconds = (now - (typeof ts === 'number' ? ts : Date.parse(ts))) / 1000;
  if (seconds < 1) return 'now';
  return `${duration(seconds < 90 ? Math.round(seconds) : seconds)} ago`;
}

/** The unit of a column, also where the API can only see the end of the name. @param {{name: string, unit?: string}} column */
export function unitOf(column) {
  const name = column.name.replace(/_(p\d+|max|min|avg)$/, '').replace(/_total$/, '');
  if (/bytes_per_second$/.test(name)) return 'B/s';
  if (/_per_second$/.test(name)) return '/s';
  if (column.unit) return column.unit;
  if (/seconds$/.test(name)) return 's';
  if (/bytes$/.test(name)) return 'B';
  if (/ratio$/.test(name)) return 'ratio';
  return '';
}

/** A number in a unit. @param {number} x @param {string} unit */
export function number(x, unit) {
  switch (unit) {
    case 's': return duration(x);
    case 'B': return size(x);
    case 'B/s': return `${size(x)}/s`;
    case '/s': return `${count(Number(x.toPrecision(3)))}${GAP}/s`;
    case 'ratio': return ratio(x);
    default: return count(x);
  }
}

/** Numbers that are names, not amounts: ports, ids, codes. @param {string} name */
const isName = name => /(^|_)(port|id|code|line|inode|sequence|offset|version)$/.test(name);

/** Any value of an answer as text. @param {any} value @param {{name: string, kind?: string, unit?: string}} column */
export function value(value, column) {
  if (value === null || value === undefined) return DASH;
  if (column.kind === 'timestamp') return time(value);
  if (typeof value === 'number') return isName(column.name) ? String(value) : number(value, unitOf(column));
  if (typeof value === 'boolean') return value ? 'yes' : 'no';
  if (typeof value === 'object') return JSON.stringify(value);
  return String(value);
}

/** The value as it came, for titles. @param {any} value @param {{kind?: string, unit?: string}} column */
export function exact(value, column) {
  if (value === null || value === undefined) return 'NULL: not measured';
  if (typeof value === 'object') return JSON.stringify(value);
  return column.kind === 'timestamp' ? `${value} (UTC+00:00)` : String(value);
}

/** Text quoted for SQL. @param {any} text */
export const quote = text => `'${String(text).replaceAll("'", "''")}'`;
