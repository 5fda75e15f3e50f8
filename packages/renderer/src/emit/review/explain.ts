import type { Place } from '@sluice/bundle';
import type { Blame } from '../../load/blame.ts';
import type { Explanation } from '../../review/explain.ts';

/** An explanation with what is known outside of the bundle. */
export interface Explained extends Explanation {
  readonly manifest?: Place;
  readonly blame?: Blame;
}

/** Prints whose a chain, a rule or an address is, the most important first. */
export function printExplained(explained: Explained, format: 'text' | 'json'): string {
  if (format === 'json') {
    return `${JSON.stringify({ apiVersion: 'sluice.dev/v1alpha1', kind: 'Explanation', ...explained }, null, 2)}\n`;
  }
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

/** As many Services as a line takes; `-o json` has them all. */
const namedMax = 10;

function owner({ service, services = [] }: Explained): string {
  if (service !== undefined) return `Service ${service}`;
  if (services.length === 0) return 'What all Services share';
  const more = services.length > namedMax ? `, … (${services.length} ports in all)` : '';
  return `Services ${services.slice(0, namedMax).join(', ')}${more}`;
}

function printPort({ key, addresses = [], nodePort = 0, endpoints }: NonNullable<Explained['ports']>[number]): string {
  const parts = [
    ...addresses.map(({ kind, text }) => `${text} (${kind})`),
    ...(nodePort === 0 ? [] : [`node port ${nodePort}`]),
    ...(endpoints ? [`${endpoints.length} endpoint${endpoints.length === 1 ? '' : 's'}`] : []),
  ];
  return parts.length === 0 ? key : `${key} at ${parts.join(', ')}`;
}

function printLayout({ layout, counterpart }: Explained): string {
  if (layout === undefined) return '';
  const other = layout === 'tree' ? 'flat' : 'tree';
  // Most endpoints have none there.
  const name = counterpart?.startsWith('SLU-SEP-') ? `${counterpart}, where endpoints have chains` : counterpart;
  return `    layout   ${layout}${name === undefined ? '' : ` (in layout ${other}: ${name})`}\n`;
}
