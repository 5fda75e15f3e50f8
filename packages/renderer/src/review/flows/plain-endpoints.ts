import { addressesHere, type NftState, perObject, readFrontend } from '@sluice/netfilter';
import type { NodeProgram } from './program.ts';

/**
 * The addresses of endpoints that all programs of a node treat as any other pod, but for connections to themselves. A program that does
 * not name an address treats it as any other pod, too.
 * @param programs of one mode
 * @returns none in mode ipvs and of observed nodes: there every endpoint has to be looked at
 */
export function plainEndpoints(programs: readonly NodeProgram[]): ReadonlySet<string> {
  const found = programs.map(endpointsIn);
  const all = (kind: keyof Endpoints): ReadonlySet<string> => new Set(found.flatMap((one) => [...one[kind]]));
  const [masked, unmasked, special] = [all('masked'), all('unmasked'), all('special')];
  const isOne = (address: string): boolean => masked.has(address) !== unmasked.has(address) && !special.has(address);
  return new Set([...masked, ...unmasked].filter(isOne));
}

/** Addresses by the treatment of their packets. */
interface Endpoints {
  /** As those of other pods, but masqueraded where they are translated to themselves. */
  readonly masked: ReadonlySet<string>;
  /** As those of other pods. */
  readonly unmasked: ReadonlySet<string>;
  /** In another way. */
  readonly special: ReadonlySet<string>;
}

const none: ReadonlySet<string> = new Set();

function endpointsIn({ rules, ipvs, nft, live }: NodeProgram): Endpoints {
  if (ipvs ?? live) return { masked: none, unmasked: none, special: none };
  return nft ? inTable(nft) : inRules(rules);
}

/**
 * Each chain that translates to an endpoint has a rule for its address before, as kube-proxy's KUBE-SEP chains have, and no other rule
 * names it as a source.
 */
const inRules = perObject(({ nat, filter }: NodeProgram['rules']): Endpoints => {
  const masked = new Set<string>();
  const special = new Set<string>();
  for (const lines of [...nat.chains.values(), nat.jumps]) {
    const own = endpointOf(lines);
    if (own === undefined) for (const address of namedIn(lines)) special.add(address);
    else masked.add(own);
  }
  for (const lines of [...filter.chains.values(), filter.jumps])
    for (const address of namedIn(lines)) special.add(address);
  return { masked, unmasked: none, special };
});

const commentForm = / -m comment --comment (?:"[^"]*"|\S+)/g;
const maskedForm = /^-A \S+ -s ([0-9a-f.:]+)(?:\/32|\/128)? -j KUBE-MARK-MASQ$/;
const translatedForm = / -j DNAT --to-destination \[?([0-9a-f.:]+?)\]?:\d+$/;
const namedForm = / -s ([0-9a-f.:]+)(?:\/32|\/128)?(?= |$)/;

/** The endpoint of a chain that masquerades its connections to itself, then translates to it, and does nothing else. */
const endpointOf = perObject((lines: readonly string[]): string | undefined => {
  if (lines.length !== 2) return undefined;
  const [first, last] = lines.map((line) => line.replaceAll(commentForm, '')) as [string, string];
  const address = maskedForm.exec(first)?.[1];
  const isItself = address !== undefined && translatedForm.exec(last)?.[1] === address;
  return isItself && !/ -s /.test(last) ? address : undefined;
});

/** The single addresses that lines name as sources, and those that they translate to. */
const namedIn = perObject((lines: readonly string[]): readonly string[] =>
  lines.flatMap((line) => {
    const bare = line.replaceAll(commentForm, '');
    return [namedForm.exec(bare)?.[1], translatedForm.exec(bare)?.[1]].flatMap((address) => address ?? []);
  }),
);

/**
 * In the table of mode nftables only an endpoint's own node masquerades its connections to itself, and only source ranges of frontends
 * name other addresses.
 */
const inTable = perObject(({ settings, frontends }: NftState): Endpoints => {
  const all = [...frontends].map(([key, lines]) => readFrontend(key, lines));
  const masked = new Set(all.flatMap(({ here = [] }) => here));
  const ranges = [...all.flatMap((one) => one.ranges), ...settings.map((setting) => setting.split(' ')[1] ?? '')];
  return {
    masked,
    unmasked: new Set(all.flatMap((one) => addressesHere(one, (address) => !masked.has(address)))),
    special: new Set(ranges.map((range) => range.replace(/\/(?:32|128)$/, ''))),
  };
});
