import { hash } from 'node:crypto';
import {
  type Problem,
  type Family,
  isServerLine,
  lineFamily,
  refusedLine,
  type ResolvedLine,
  type ResolvedVirtualFile,
  serverNameOf,
} from '@sluice/netfilter';
import { fillVariables, guardHolds, hasVariable, type Scope } from '../resolve.ts';
import { serverName, type VirtualFile, type VirtualLine } from './file.ts';

/**
 * Resolves an `.ipset`, `.ipvs` or `.nft` file for one node: guards other than `@local`, then those, then `${node.*}` and `${profile.*}`; a
 * real server is left out together with its virtual server.
 * @param families of the profile; a line of another one is a problem (`RULE_REFUSED`)
 */
export function resolveVirtual(
  file: VirtualFile,
  scope: Omit<Scope, 'family'>,
  families: readonly Family[],
): ResolvedVirtualFile | readonly Problem[] {
  const scopes = { ipv4: { ...scope, family: 'ipv4' }, ipv6: { ...scope, family: 'ipv6' } } as const;
  const scopeOf = (text: string): Scope => scopes[lineFamily(file.tool, text)];
  const problems = file.lines
    .filter(({ text }) => !isOfBoth(text) && !families.includes(scopeOf(text).family))
    .map(({ text, line }) => refusedLine(file.path, line, `the profile has no ${scopeOf(text).family}`));
  if (problems.length > 0) return problems;
  const applicable = file.lines.filter(
    ({ guard, text }) => !guard || guard.kind === 'local' || guardHolds(guard, scopeOf(text)),
  );
  const lines = (file.tool === 'ipvs' ? withLocal(applicable) : applicable).flatMap((one): readonly ResolvedLine[] => {
    const { guard, text, line } = one;
    if (!hasVariable(text)) return [guard ? { text, line } : one];
    return fillVariables(text, scopeOf(text)).map((filled) => ({ text: filled, line }));
  });
  return { path: file.path, lines };
}

/** Lines that have no family. */
const isOfBoth = (text: string): boolean => text.startsWith('--set ') || text.startsWith('table ');

/** Evaluates `@local`, and removes real servers without their virtual server. */
function withLocal(applicable: readonly VirtualLine[]): readonly VirtualLine[] {
  const isVirtual = ({ text }: VirtualLine): boolean => isServerLine(text);
  const virtual = new Set(applicable.filter(isVirtual).map(({ text }) => serverName(text)));
  const served = new Set(
    applicable.filter((line) => !isVirtual(line) && line.guard?.kind !== 'local').map(({ text }) => serverName(text)),
  );
  return applicable.filter(({ guard, text }) => {
    if (!text.startsWith('-') || text.startsWith('--')) return true;
    if (!virtual.has(serverName(text))) return false;
    return guard?.kind !== 'local' || served.has(serverNameOf(guard.chain) ?? '') !== guard.negated;
  });
}

/** True when the file resolves to the same on every node of a profile. */
export function isVirtualSameEverywhere(file: VirtualFile): boolean {
  return file.lines.every(({ guard, text }) => !guard && !text.includes('${node.'));
}

/** The digest of a resolved file; undefined for an empty result. */
export function virtualDigest({ lines }: ResolvedVirtualFile): string | undefined {
  return lines.length === 0 ? undefined : hash('sha256', lines.map(({ text }) => `${text}\n`).join(''), 'hex');
}
