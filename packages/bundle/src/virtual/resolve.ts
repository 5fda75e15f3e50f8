import { hash } from 'node:crypto';
import type { Problem } from '../problem.ts';
import { fillVariables, guardHolds, type Scope } from '../resolve.ts';
import type { Family } from '../rulefile.ts';
import { lineFamily, refusedLine, serverName, type VirtualFile, type VirtualLine } from './file.ts';
import { serverNameOf } from './read-ipvs.ts';

/** A line as it stands on one node; `${host.*}` is still as written. */
export interface ResolvedLine {
  readonly text: string;
  readonly line: number;
}

/** A file as one node has it. */
export interface ResolvedFile {
  readonly path: string;
  readonly lines: readonly ResolvedLine[];
}

/** Everything of mode ipvs that a node has besides rules, in the order of loading. */
export interface ResolvedVirtual {
  readonly ipset: readonly ResolvedFile[];
  readonly ipvs: readonly ResolvedFile[];
}

/**
 * An `.ipset` or `.ipvs` file as one node has it: guards other than `@local`, then those, then `${node.*}` and
 * `${profile.*}`; a real server leaves with its virtual server.
 * @param families of the profile; a line of another one is a problem (`RULE_REFUSED`)
 */
export function resolveVirtual(
  file: VirtualFile,
  scope: Omit<Scope, 'family'>,
  families: readonly Family[],
): ResolvedFile | readonly Problem[] {
  const scopes = { ipv4: { ...scope, family: 'ipv4' }, ipv6: { ...scope, family: 'ipv6' } } as const;
  const scopeOf = (text: string): Scope => scopes[lineFamily(file.tool, text)];
  const problems = file.lines
    .filter(({ text }) => !text.startsWith('--set ') && !families.includes(scopeOf(text).family))
    .map(({ text, line }) => refusedLine(file.path, line, `the profile has no ${scopeOf(text).family}`));
  if (problems.length > 0) return problems;
  const standing = file.lines.filter(
    ({ guard, text }) => !guard || guard.kind === 'local' || guardHolds(guard, scopeOf(text)),
  );
  const lines = (file.tool === 'ipset' ? standing : withLocal(standing)).flatMap(({ text, line }) =>
    fillVariables(text, scopeOf(text)).map((filled) => ({ text: filled, line })),
  );
  return { path: file.path, lines };
}

/** Decides `@local`, and takes real servers away whose virtual server does not stand here. */
function withLocal(standing: readonly VirtualLine[]): readonly VirtualLine[] {
  const isVirtual = ({ text }: VirtualLine): boolean => text.startsWith('-A ');
  const virtual = new Set(standing.filter(isVirtual).map(({ text }) => serverName(text)));
  const served = new Set(
    standing.filter((line) => !isVirtual(line) && line.guard?.kind !== 'local').map(({ text }) => serverName(text)),
  );
  return standing.filter(({ guard, text }) => {
    if (!text.startsWith('-') || text.startsWith('--')) return true;
    if (!virtual.has(serverName(text))) return false;
    return guard?.kind !== 'local' || served.has(serverNameOf(guard.chain) ?? '') !== guard.negated;
  });
}

/** True when the file says the same on every node of a profile. */
export function isVirtualSameEverywhere(file: VirtualFile): boolean {
  return file.lines.every(({ guard, text }) => !guard && !text.includes('${node.'));
}

/** The digest of what a file resolves to; undefined when nothing is left. */
export function virtualDigest({ lines }: ResolvedFile): string | undefined {
  return lines.length === 0 ? undefined : hash('sha256', lines.map(({ text }) => `${text}\n`).join(''), 'hex');
}
