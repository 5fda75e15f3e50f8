import type { Family } from '../family.ts';
import type { TraceFlow } from '../packet/flow.ts';
import { listOf, objectOf, textOf } from './nft-values.ts';
import type { LiveHook } from './rule.ts';
import { hasOwner, portAt, routeBack, sourceOf, stateOf } from './tests.ts';

/** What an expression of a rule reads from a packet. */
export interface Field {
  /** Its values, one for most; several for the state of a connection. Undefined: not known. */
  readonly of: (flow: TraceFlow, hook: LiveHook) => readonly string[] | undefined;
  /** What it asks of the source; left out: nothing. */
  readonly asks?: 'address-of-source' | 'interface-of-source' | undefined;
  /** Its values are compared as decimal numbers alone. */
  readonly isNumber?: true;
}

const one = (of: (flow: TraceFlow, hook: LiveHook) => string | undefined, asks?: Field['asks']): Field => ({
  of: (flow, hook) => {
    const value = of(flow, hook);
    return value === undefined ? undefined : [value];
  },
  asks,
});

const sourceText = one((flow, hook) => sourceOf(flow, hook)?.text, 'address-of-source');
const destinationOf = one(({ destination }) => destination.text);
const numbers = { tcp: '6', udp: '17', sctp: '132' } as const;

/** @returns undefined for an expression that is not read */
export function fieldOf(expression: unknown): Field | undefined {
  const { payload, meta, ct, fib, exthdr, '&': masked } = objectOf(expression);
  if (Array.isArray(masked)) return zeroOf(masked);
  if (payload !== undefined)
    return payloadOf(textOf(objectOf(payload)['protocol']), textOf(objectOf(payload)['field']));
  if (meta !== undefined) return fieldIn(metas, objectOf(meta)['key']);
  if (ct !== undefined) return objectOf(ct)['dir'] === 'reply' ? undefined : fieldIn(connections, objectOf(ct)['key']);
  // Whether there is one: first packets of Services have none.
  if (exthdr !== undefined) return objectOf(exthdr)['field'] === undefined ? one(() => 'false') : absent;
  if (fib === undefined) return undefined;
  const flags = listOf(objectOf(fib)['flags']).map(textOf);
  return objectOf(fib)['result'] === 'type' ? typeOf(flags) : routeOf(flags);
}

const fieldIn = (fields: Readonly<Record<string, Field>>, key: unknown): Field | undefined =>
  Object.hasOwn(fields, textOf(key)) ? fields[textOf(key)] : undefined;

/** An address with no bit left, by which Sluice's maps spell each address of a node. */
function zeroOf([of, mask]: readonly unknown[]): Field | undefined {
  const field = fieldOf(of);
  if (!field || (mask !== '0.0.0.0' && mask !== '::')) return undefined;
  return { of: (flow, hook) => field.of(flow, hook)?.map(() => mask) };
}

function payloadOf(protocol: string, field: string): Field | undefined {
  if ((protocol === 'ip' || protocol === 'ip6') && (field === 'saddr' || field === 'daddr')) {
    const family = protocol === 'ip' ? 'ipv4' : 'ipv6';
    const side = field === 'saddr' ? sourceText : destinationOf;
    // A rule of a table of both families that asks for an address of the other one does not match.
    return { of: (flow, hook) => (hook.family === family ? side.of(flow, hook) : []), asks: side.asks };
  }
  if ((field === 'dport' || field === 'sport') && ['tcp', 'udp', 'sctp', 'th'].includes(protocol))
    return {
      of: (flow, hook) => {
        if (protocol !== 'th' && protocol !== hook.protocol) return [];
        const port = portAt(field === 'dport' ? 'destination' : 'source', flow, hook);
        return port === undefined ? undefined : [String(port)];
      },
      isNumber: true,
    };
  if ((protocol === 'ip' && field === 'protocol') || (protocol === 'ip6' && field === 'nexthdr'))
    return {
      of: (_flow, hook) =>
        hook.family === (protocol === 'ip' ? 'ipv4' : 'ipv6') ? [hook.protocol, numbers[hook.protocol]] : [],
    };
  if ((protocol === 'ip' || protocol === 'ip6') && field === 'version') {
    const [family, version] = protocol === 'ip' ? ['ipv4', '4'] : ['ipv6', '6'];
    return { of: (_flow, hook) => (hook.family === family ? [version] : []) };
  }
  // A test of a header that no packet of a Service has matches none, and neither does its negation.
  if (foreignHeaders.has(protocol)) return absent;
  return undefined;
}

/** Headers of other protocols than those of Services. */
const foreignHeaders: ReadonlySet<string> = new Set([
  'icmp',
  'icmpv6',
  'igmp',
  'esp',
  'ah',
  'comp',
  'dccp',
  'udplite',
  'arp',
]);
const absent: Field = { of: () => [] };

/** Of the socket that sends a packet. */
const owner: Field = { of: (_flow, hook) => (hasOwner(hook) === false ? [] : undefined) };

const metas: Readonly<Record<string, Field>> = {
  l4proto: { of: (_flow, hook) => [hook.protocol, numbers[hook.protocol]] },
  nfproto: one((_flow, { family }) => family),
  protocol: one((_flow, { family }) => (family === 'ipv4' ? 'ip' : 'ip6')),
  iifname: one((_flow, hook) => hook.in, 'interface-of-source'),
  iif: one((_flow, hook) => hook.in, 'interface-of-source'),
  oifname: one((flow, hook) => (hook.isLocal(flow.destination) ? 'lo' : hook.outOf(flow.destination))),
  oif: one((flow, hook) => (hook.isLocal(flow.destination) ? 'lo' : hook.outOf(flow.destination))),
  mark: {
    ...one(({ mark, unknownMark }, { hidden }) => (hidden?.mark || unknownMark !== 0 ? undefined : String(mark))),
    isNumber: true,
  },
  skuid: owner,
  skgid: owner,
  cgroup: owner,
  // Broadcasts and multicasts are for no Service.
  pkttype: one(() => 'host'),
  priority: one(({ priority }) => priority),
};

const originalOf = (family: Family): Field => ({
  of: (_flow, hook) => (hook.family === family ? [hook.original.destination.text] : []),
});

/** The other end of a reply began its connection. */
const originalSource = (family: Family): Field => ({
  of: (flow, hook) => {
    if (hook.family !== family) return [];
    const source = hook.isReply ? undefined : sourceOf(flow, hook);
    return source && [source.text];
  },
  asks: 'address-of-source',
});

const connections: Readonly<Record<string, Field>> = {
  'ip saddr': originalSource('ipv4'),
  'ip6 saddr': originalSource('ipv6'),
  'ip daddr': originalOf('ipv4'),
  'ip6 daddr': originalOf('ipv6'),
  'proto-dst': { ...one((_flow, { original }) => String(original.port)), isNumber: true },
  protocol: { of: (_flow, hook) => [hook.protocol, numbers[hook.protocol]] },
  state: one((flow, hook) => stateOf(flow, hook).toLowerCase()),
  direction: one((_flow, { isReply }) => (isReply ? 'reply' : 'original')),
};

/** `fib daddr type`: of two types alone. */
function typeOf(flags: readonly string[]): Field | undefined {
  const side = flags.includes('saddr') ? 'source' : flags.includes('daddr') ? 'destination' : undefined;
  if (!side || flags.some((flag) => flag !== 'saddr' && flag !== 'daddr' && flag !== 'iif')) return undefined;
  return one((flow, hook) => {
    const address = side === 'source' ? sourceOf(flow, hook) : flow.destination;
    if (!address || !hook.isLocal(address)) return address && 'unicast';
    // With `iif` an address counts only on the interface that the packet came by.
    return flags.includes('iif') ? undefined : 'local';
  });
}

/** `fib saddr . iif oif`: the reverse path. Marks may choose another table of routes, which is not followed. */
function routeOf(flags: readonly string[]): Field | undefined {
  if (!flags.includes('saddr') || flags.some((flag) => !['saddr', 'mark', 'iif'].includes(flag))) return undefined;
  const isStrict = flags.includes('iif');
  return {
    of: (flow, hook) => {
      const found = routeBack(flow, hook, isStrict);
      return found === undefined ? undefined : found === false ? ['false', '0'] : ['true', found];
    },
  };
}

/** Every combination of the values of some fields; undefined: one is not known. */
export function keysOf(
  fields: readonly Field[],
  flow: TraceFlow,
  hook: LiveHook,
): readonly (readonly string[])[] | undefined {
  let keys: readonly (readonly string[])[] = [[]];
  for (const field of fields) {
    const values = field.of(flow, hook);
    if (!values) return undefined;
    keys = keys.flatMap((key) => values.map((value) => [...key, value]));
  }
  return keys;
}

/** Numbers from the first on, each as likely. */
export interface Spread {
  readonly from: number;
  readonly count: number;
}

/** `numgen random mod 3`, and hashes of the client, which spread all clients evenly. */
export function spreadOf(part: unknown): Spread | undefined {
  const { numgen, jhash, symhash } = objectOf(part);
  const drawn = numgen ?? jhash ?? symhash;
  const { mod, offset = 0 } = objectOf(drawn);
  const [count, from] = [Number(textOf(mod)), Number(textOf(offset))];
  return drawn === undefined || !(count >= 1 && count <= spreadMax) ? undefined : { from, count };
}

/** Sluice's longest list of endpoints. */
const spreadMax = 65_536;

export function keysWithShares(
  fields: readonly (Field | Spread)[],
  flow: TraceFlow,
  hook: LiveHook,
): readonly { readonly parts: readonly string[]; readonly share: number }[] | undefined {
  let keys: readonly { readonly parts: readonly string[]; readonly share: number }[] = [{ parts: [], share: 1 }];
  for (const field of fields) {
    const values =
      'count' in field
        ? Array.from({ length: field.count }, (_, n) => ({ value: String(field.from + n), share: 1 / field.count }))
        : field.of(flow, hook)?.map((value) => ({ value, share: 1 }));
    if (!values) return undefined;
    keys = keys.flatMap(({ parts, share }) =>
      values.map((each) => ({ parts: [...parts, each.value], share: share * each.share })),
    );
  }
  return keys;
}
