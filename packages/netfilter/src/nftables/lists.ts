import { families } from '../family.ts';
import { nftLimits } from './limits.ts';
import { type NftScheduler, readMaglevSize } from './scheduler.ts';
import { nftTableName, nftWords, packetKey, protocols } from './table.ts';

/** The parts of the name of a list's chain. */
interface ListName {
  /** How it chooses a slot; with session affinity at random, for clients that it does not know. */
  readonly scheduler: NftScheduler | 'random';
  /** Whether it is the chain of lists of the node's own endpoints. */
  readonly isLocal: boolean;
  /** Of the list's slots. */
  readonly count: number;
  /** The time of session affinity. */
  readonly seconds?: number;
  /**
   * Scheduler `round-robin`: the one frontend that uses the chain, in 16 hex digits. The rules of a chain count all connections that meet
   * them, so that of two frontends in turn each would get every other endpoint.
   */
  readonly owner?: string;
  readonly isNodePort: boolean;
  readonly isHalfB: boolean;
}

/** The letters of a scheduler, of the whole list and of the local one. */
const letters = {
  random: ['n', 'l'],
  affinity: ['s', 'r'],
  'round-robin': ['i', 'il'],
  'source-hash': ['h', 'hl'],
  maglev: ['m', 'ml'],
} as const;

type Kind = keyof typeof letters;

const kinds = new Map(
  (Object.keys(letters) as Kind[]).flatMap((kind) =>
    letters[kind].map((letter, at) => [letter, { kind, isLocal: at === 1 }] as const),
  ),
);

const nameForm = /^(p?)([a-z]l?)(\d+)(?:t(\d+))?(b?)(?:-([0-9a-f]{16}))?$/;

/** Reads the name of a list's chain, `pn3b`. @returns undefined for another chain of the table */
export function readListName(name: string): ListName | undefined {
  const [, node, letter = '', count = '', seconds, half, owner] = nameForm.exec(name) ?? [];
  const { kind, isLocal } = kinds.get(letter as (typeof letters)[Kind][number]) ?? {};
  if (!kind || isLocal === undefined) return undefined;
  const size = kind === 'maglev' ? readMaglevSize(count) : undefined;
  const isWhole =
    (seconds !== undefined) === (kind === 'affinity') &&
    (owner !== undefined) === (kind === 'round-robin') &&
    (size !== undefined) === (kind === 'maglev');
  if (!isWhole) return undefined;
  const plain = kind === 'round-robin' || kind === 'source-hash' ? kind : 'random';
  return {
    scheduler: size === undefined ? plain : `maglev ${size}`,
    isLocal,
    count: Number(count),
    ...(seconds === undefined ? {} : { seconds: Number(seconds) }),
    ...(owner === undefined ? {} : { owner }),
    isNodePort: node === 'p',
    isHalfB: half === 'b',
  };
}

/** The name of a list's chain. `readListName(listName(list))` is `list`. */
export function listName({ scheduler, isLocal, count, seconds, owner, isNodePort, isHalfB }: ListName): string {
  const kind = seconds === undefined ? (scheduler.split(' ')[0] as Kind) : 'affinity';
  const time = seconds === undefined ? '' : `t${seconds}`;
  const own = owner === undefined ? '' : `-${owner}`;
  return `${isNodePort ? 'p' : ''}${letters[kind][isLocal ? 1 : 0]}${count}${time}${isHalfB ? 'b' : ''}${own}`;
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
const startOf = ({ isLocal, isHalfB }: ListName): number =>
  (isHalfB ? 2 * nftLimits.endpointsMax : 0) + (isLocal ? nftLimits.endpointsMax : 0);

/** The same on every node, or a flow that reaches another node would get another endpoint there: by default nft makes one up. */
const seed = '0x5c4e';

/**
 * Which slot a packet gets. By the client's address and port where all nodes have to agree about a flow: its other end may be another
 * address of another node, a node port.
 */
function pick({ scheduler, count, ...list }: ListName, ip: string, protocol: string): string {
  const start = startOf({ scheduler, count, ...list });
  const offset = start === 0 ? '' : ` offset ${start}`;
  if (scheduler === 'random') return `numgen random mod ${count}${offset}`;
  if (scheduler === 'round-robin') return `numgen inc mod ${count}${offset}`;
  const client = scheduler === 'source-hash' ? `${ip} saddr` : `${ip} saddr . ${protocol} sport`;
  return `jhash ${client} mod ${count} seed ${seed}${offset}`;
}

function plainChain(name: string, list: ListName): readonly string[] {
  const rules = families.flatMap((family) => {
    const { n, ip, any } = nftWords[family];
    const address = `${ip} daddr${list.isNodePort ? ` & ${any}` : ''}`;
    return protocols.map(
      (protocol) => `dnat ${ip} to ${address} . ${protocol} dport . ${pick(list, ip, protocol)} map @${protocol}${n}`,
    );
  });
  return [`add chain ${nftTableName} ${name}`, ...rules.map((rule) => addRule(name, rule))];
}

/** A client that is known goes to its endpoint; if that left, or the client is new, it gets one, and is remembered. */
function stickyChain(name: string, list: ListName, seconds: number): readonly string[] {
  const known = `${name}-known`;
  const ids = `${list.isLocal ? 'lid' : 'id'}${list.isHalfB ? 'b' : ''}`;
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
      addRule(name, `meta priority set ${key} . ${pick(list, ip, 'th')} map @slot${n}`),
      addRule(name, remember),
      // Of two first packets at once one was remembered: both go to its endpoint.
      addRule(name, `meta priority set ${client} map @aff${n}`),
      addRule(name, translate),
    ];
  });
  return [`add chain ${nftTableName} ${known}`, `add chain ${nftTableName} ${name}`, ...rules];
}

const addRule = (chain: string, rule: string): string => `add rule ${nftTableName} ${chain} ${rule}`;
