import { families } from '../family.ts';
import { nftLimits } from './limits.ts';
import { nftTableName, nftWords, packetKey, protocols } from './table.ts';

/** The parts of the name of a list's chain. */
interface ListName {
  /** `n` the list, `l` the local list; with session affinity `s` and `r`. */
  readonly kind: 'n' | 'l' | 's' | 'r';
  readonly count: number;
  readonly seconds?: number;
  readonly isNodePort: boolean;
  readonly isHalfB: boolean;
}

const nameForm = /^(p?)(?:([nl])(\d+)|([sr])(\d+)t(\d+))(b?)$/;

/** Reads the name of a list's chain, `pn3b`. @returns undefined for another chain of the table */
export function readListName(name: string): ListName | undefined {
  const match = nameForm.exec(name);
  if (!match) return undefined;
  const [, node, plain, count, sticky, stickyCount, seconds, half] = match;
  return {
    kind: (plain ?? sticky) as ListName['kind'],
    count: Number(count ?? stickyCount),
    ...(seconds === undefined ? {} : { seconds: Number(seconds) }),
    isNodePort: node === 'p',
    isHalfB: half === 'b',
  };
}

/**
 * The commands that create the chain of all lists of one length. `add rule` is not idempotent: only for a chain that does not exist.
 * @param name as `listNames` makes it
 */
export function listChain(name: string): readonly string[] {
  const list = readListName(name);
  if (!list) throw new TypeError(`Cannot create chain ${name}: it is not the name of a list`);
  return list.seconds === undefined ? plainChain(name, list) : stickyChain(name, list, list.seconds);
}

/** The first slot of a list. */
function startOf({ kind, isHalfB }: ListName): number {
  const isLocal = kind === 'l' || kind === 'r';
  return (isHalfB ? 2 * nftLimits.endpointsMax : 0) + (isLocal ? nftLimits.endpointsMax : 0);
}

const pick = (list: ListName): string => {
  const start = startOf(list);
  return `numgen random mod ${list.count}${start === 0 ? '' : ` offset ${start}`}`;
};

function plainChain(name: string, list: ListName): readonly string[] {
  const rules = families.flatMap((family) => {
    const { n, ip, any } = nftWords[family];
    const address = `${ip} daddr${list.isNodePort ? ` & ${any}` : ''}`;
    return protocols.map(
      (protocol) => `dnat ${ip} to ${address} . ${protocol} dport . ${pick(list)} map @${protocol}${n}`,
    );
  });
  return [`add chain ${nftTableName} ${name}`, ...rules.map((rule) => addRule(name, rule))];
}

/** A client that is known goes to its endpoint; if that left, or the client is new, it gets one, and is remembered. */
function stickyChain(name: string, list: ListName, seconds: number): readonly string[] {
  const known = `${name}-known`;
  const ids = `${list.kind === 'r' ? 'lid' : 'id'}${list.isHalfB ? 'b' : ''}`;
  const rules = families.flatMap((family) => {
    const words = nftWords[family];
    const { n, ip, client } = words;
    const key = packetKey(words, list.isNodePort);
    const remember = `update @aff${n} { ${client} timeout ${seconds}s : meta priority }`;
    const translate = `dnat ${ip} to ${key} . meta priority map @${ids}${n}`;
    return [
      addRule(known, remember),
      addRule(known, translate),
      // Its endpoint left: the client gets another one below.
      addRule(known, `delete @aff${n} { ${client} : meta priority }`),
      addRule(name, `meta priority set ${client} map @aff${n} jump ${known}`),
      addRule(name, `meta priority set ${key} . ${pick(list)} map @slot${n}`),
      addRule(name, remember),
      // Of two first packets at once one was remembered: both go to its endpoint.
      addRule(name, `meta priority set ${client} map @aff${n}`),
      addRule(name, translate),
    ];
  });
  return [`add chain ${nftTableName} ${known}`, `add chain ${nftTableName} ${name}`, ...rules];
}

const addRule = (chain: string, rule: string): string => `add rule ${nftTableName} ${chain} ${rule}`;
