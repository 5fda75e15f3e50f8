import { perObject } from '@sluice/netfilter';
import type { EndpointTreatment, FlowPlane, NodeProgram } from './plane.ts';

/** Rules of iptables: they choose by chance, and remember clients in lists, which a path names. */
export const rulesPlane: FlowPlane = {
  looksAtFrontendsAlone: false,
  mayHaveScheduler: () => false,
  mayHaveAffinity: ({ rules }) =>
    [rules.nat, rules.filter]
      .flatMap((table) => [...table.chains.values(), table.jumps])
      .some((lines) => lines.some((line) => line.includes(' -m recent '))),
  schedulersOn: () => [],
  secondsOn: () => [],
  named: ({ rules }) => {
    const all = [...rules.nat.chains.values(), ...rules.filter.chains.values()].flatMap(sourcesIn);
    return {
      networks: all.flatMap(({ network }) => network ?? []),
      interfaces: all.flatMap(({ name }) => name?.replace(/\+$/, '0') ?? []),
    };
  },
  endpoints: ({ rules }) => inRules(rules),
};

const sourceMatch = / -s (\S+)/;
const interfaceMatch = / -i (\S+)/;

/** The source network and interface that a rule names. */
interface NamedInRule {
  readonly network: string | undefined;
  readonly name: string | undefined;
}

/** Results by list: programs share the lists of chains that all Services have. */
const sourcesIn = perObject((lines: readonly string[]): readonly NamedInRule[] =>
  lines
    .map((line) => {
      const text = line.includes('"') ? line.replaceAll(/"[^"]*"/g, '""') : line;
      return {
        network: sourceMatch.exec(text)?.[1],
        name: interfaceMatch.exec(text)?.[1],
      };
    })
    .filter(({ network, name }) => (network ?? name) !== undefined),
);

/**
 * Each chain that translates to an endpoint has a rule for its address before, as kube-proxy's KUBE-SEP chains have, and no other rule
 * names it as a source.
 */
const inRules = perObject(({ nat, filter }: NodeProgram['rules']): EndpointTreatment => {
  const masked = new Set<string>();
  const special = new Set<string>();
  for (const lines of [...nat.chains.values(), nat.jumps]) {
    const own = endpointOf(lines);
    if (own === undefined) for (const address of namedIn(lines)) special.add(address);
    else masked.add(own);
  }
  for (const lines of [...filter.chains.values(), filter.jumps])
    for (const address of namedIn(lines)) special.add(address);
  return { masked, unmasked: new Set(), special };
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
