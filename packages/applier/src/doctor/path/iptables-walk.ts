import type { SavedTable } from '../facts.ts';
import { type HookPacket, type Match, type Meeting } from './packet.ts';
import { readForeign, wordsOf } from './iptables-rule.ts';

/** Deeper than tools accept; foreign chains may form no loop in the kernel. */
const depthMax = 32;

/** Whether a chain is Sluice's own, by its name. */
export type IsOwn = (chain: string) => boolean;

interface Walk {
  readonly table: SavedTable;
  readonly hook: string;
  readonly packet: HookPacket;
  readonly isOwn: IsOwn;
  readonly met: Meeting[];
}

/** How a packet leaves a chain: `ended` for certain, or `open`, perhaps decided by an earlier rule. */
interface Left {
  readonly isEnded: boolean;
  readonly isSure: boolean;
}

/**
 * The foreign rules of one built-in chain that decide about a packet. Sluice's own chains are known: in nat they translate packets of
 * Services, so the rest of the chain does not count; in filter FORWARD they accept masqueraded packets and replies.
 */
export function walkIptables(table: SavedTable, hook: string, packet: HookPacket, isOwn: IsOwn): readonly Meeting[] {
  const met: Meeting[] = [];
  const chain = table.chains.get(hook);
  if (!chain) return met;
  const left = walk({ table, hook, packet, isOwn, met }, hook, true, 0);
  if (!left.isEnded && chain.policy === 'DROP') {
    met.push({
      kind: 'drop',
      isCertain: left.isSure,
      rule: `${tool(table)} -P ${hook} DROP`,
      fix: `${tool(table)} -P ${hook} ACCEPT`,
    });
  }
  return met;
}

function walk(at: Walk, name: string, sure: boolean, depth: number): Left {
  let isSure = sure;
  const open = (): Left => ({ isEnded: false, isSure });
  if (depth > depthMax) return { isEnded: false, isSure: false };
  for (const text of at.table.chains.get(name)?.rules ?? []) {
    const rule = readForeign(text);
    const match: Match = rule?.matches(at.packet) ?? 'no';
    if (!rule || match === 'no') continue;
    const certain = isSure && match === 'yes';
    const { target } = rule;
    if (at.isOwn(target)) {
      if (match === 'yes' && endsAtOwn(at)) return { isEnded: true, isSure };
      continue;
    }
    if (target === 'RETURN') {
      if (match === 'yes') return open();
      isSure = false;
      continue;
    }
    const kind = kinds[target];
    if (kind === 'accept') {
      exempt(at, text, certain);
      if (match === 'yes') return { isEnded: true, isSure };
      isSure = false;
    } else if (kind) {
      at.met.push({ kind, isCertain: certain, rule: `${tool(at.table)} ${text}`, fix: removal(at.table, text) });
      if (match === 'yes') return { isEnded: true, isSure };
      isSure = false;
    } else if (at.table.chains.has(target)) {
      const inside = walk(at, target, certain, depth + 1);
      if (inside.isEnded && match === 'yes') return inside;
      if (inside.isEnded || (!inside.isSure && certain)) isSure = false;
      if (rule.isGoto && match === 'yes') return open();
    } else if (!harmless.has(target)) isSure = false;
  }
  return open();
}

const kinds: Readonly<Record<string, Meeting['kind'] | 'accept'>> = {
  ACCEPT: 'accept',
  DROP: 'drop',
  REJECT: 'drop',
  DNAT: 'translate',
  REDIRECT: 'translate',
  NETMAP: 'translate',
  NOTRACK: 'notrack',
};

/** Targets after which a packet continues unchanged, as far as Services are concerned. */
const harmless = new Set([
  'LOG',
  'NFLOG',
  'MARK',
  'CONNMARK',
  'CT',
  'TCPMSS',
  'TRACE',
  'SET',
  'DSCP',
  'TOS',
  'CHECKSUM',
  'CLASSIFY',
  'AUDIT',
  'MASQUERADE',
  'SNAT',
]);

/** In nat a foreign ACCEPT before our jump exempts the packet from translation; in other tables it is only a verdict. */
function exempt({ table, hook, met }: Walk, text: string, isCertain: boolean): void {
  if (table.table !== 'nat' || hook === 'POSTROUTING') return;
  met.push({ kind: 'exempt', isCertain, rule: `${tool(table)} ${text}`, fix: removal(table, text) });
}

const endsAtOwn = ({ table, hook, packet }: Walk): boolean =>
  table.table === 'nat' ||
  (table.table === 'filter' && hook === 'FORWARD' && packet.isTranslated && (packet.isMasqueraded || packet.isReply));

export const tool = ({ store, family, table }: SavedTable): string =>
  `${family === 'ipv4' ? 'iptables' : 'ip6tables'}-${store} -t ${table}`;

/** For a shell: a comment of a rule may hold `$(…)`, which double quotes would let it run. */
const removal = (table: SavedTable, text: string): string =>
  `${tool(table)} ${wordsOf(text.replace(/^-A /, '-D ')).map(shellWord).join(' ')}`;

const shellWord = (word: string): string =>
  /^[\w@%+=:,./-]+$/.test(word) || word === '!' ? word : `'${word.replaceAll("'", String.raw`'\''`)}'`;
