import { document } from '@sluice/cli';
import { type Place, plural } from '@sluice/netfilter';
import type { Blame } from '@sluice/renderer/load/git/blame.ts';
import type { Explanation } from '../explain/explanation.ts';

/** An explanation with its manifest and the last commit. */
export interface Explained extends Explanation {
  readonly manifest?: Place;
  readonly blame?: Blame;
}

/** Prints the Service of a chain, a rule or an address, then the details. */
export function printExplained(explained: Explained, format: 'text' | 'json'): string {
  if (format === 'json') return document('Explanation', explained);
  const { ports = [], meaning, manifest, blame, places } = explained;
  return [
    `${owner(explained)}: ${meaning}\n`,
    ...ports.map((port) => `    port     ${printPort(port)}\n`),
    printLayout(explained),
    manifest ? `    manifest ${manifest.file}:${manifest.line}\n` : '',
    blame ? `    commit   ${blame.commit.slice(0, 12)} ${blame.author}: ${blame.summary}\n` : '',
    ...places.map(({ file, line, text }) => `    bundle   ${file}:${line}  ${text}\n`),
  ].join('');
}

/** The maximum number of Services in the line; `-o json` has all. */
const namedMax = 10;

function owner({ service, services = [] }: Explained): string {
  if (service !== undefined) return `Service ${service}`;
  if (services.length === 0) return 'Shared by all Services';
  const more = services.length > namedMax ? `, … (${services.length} ports in all)` : '';
  return `Services ${services.slice(0, namedMax).join(', ')}${more}`;
}

function printPort({ key, addresses = [], nodePort = 0, endpoints }: NonNullable<Explained['ports']>[number]): string {
  const parts = [
    ...addresses.map(({ kind, text }) => `${text} (${kind})`),
    ...(nodePort === 0 ? [] : [`node port ${nodePort}`]),
    ...(endpoints ? [plural(endpoints.length, 'endpoint')] : []),
  ];
  return parts.length === 0 ? key : `${key} at ${parts.join(', ')}`;
}

function printLayout({ layout, counterpart }: Explained): string {
  if (layout === undefined) return '';
  const other = layout === 'tree' ? 'flat' : 'tree';
  // Most endpoints have no chain in layout tree.
  const name = counterpart?.startsWith('SLU-SEP-') ? `${counterpart}, where endpoints have chains` : counterpart;
  return `    layout   ${layout}${name === undefined ? '' : ` (in layout ${other}: ${name})`}\n`;
}
