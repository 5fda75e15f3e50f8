import {
  addressesHere,
  emptyNft,
  type NftFrontend,
  type NftState,
  type Outcome,
  perObject,
  readFrontend,
  tableOptions,
} from '@sluice/netfilter';
import type { EndpointTreatment, FlowPlane, NamedSources } from './plane.ts';

/** The table of mode nftables: a path names frontends, which have a scheduler and a time of affinity. */
export const tablePlane: FlowPlane = {
  // At endpoints it looks for what it has translated.
  looksAtFrontendsAlone: true,
  mayHaveScheduler: ({ nft }) => hasLine(nft, 'scheduler '),
  mayHaveAffinity: ({ nft }) => hasLine(nft, 'affinity '),
  schedulersOn: (outcomes, { nft }) => frontendsOn(outcomes, nft).flatMap(({ scheduler }) => scheduler ?? []),
  secondsOn: (outcome, { nft }) => frontendsOn([outcome], nft).flatMap(({ affinitySeconds }) => affinitySeconds ?? []),
  named: ({ nft }) => namedInTable(nft ?? emptyNft),
  endpoints: ({ nft }) => inTable(nft ?? emptyNft),
};

function hasLine(nft: NftState | undefined, word: string): boolean {
  return [...(nft?.frontends.values() ?? [])].some((lines) => lines.some((line) => line.startsWith(word)));
}

/** The frontends on some paths, each once. */
function frontendsOn(outcomes: readonly Outcome[], nft: NftState | undefined): readonly NftFrontend[] {
  const hits = outcomes.flatMap(({ path }) => path).filter(({ chain }) => /^(?:svc|out)[46]$/.test(chain));
  const keys = new Set(hits.map(({ rule }) => rule.slice(0, rule.indexOf(' : '))));
  return [...keys].flatMap((key) => {
    const lines = nft?.frontends.get(key);
    return lines ? [readFrontend(key, lines)] : [];
  });
}

function namedInTable({ settings, frontends }: NftState): NamedSources {
  const { detector } = tableOptions(settings);
  const networks = settings.flatMap((setting) => {
    const [, network = ''] = /^(?:pods|keep) (.*)$/.exec(setting) ?? [];
    // With all addresses in it a set distinguishes none.
    return network === '' || network.endsWith('/0') ? [] : [network];
  });
  const ranges = [...frontends].flatMap(([key, lines]) => readFrontend(key, lines).ranges);
  const interfaces = detector === 'address' ? [] : [detector.interface.replace(/\*$/, '0')];
  return { networks: [...networks, ...ranges], interfaces };
}

/**
 * In the table of mode nftables only an endpoint's own node masquerades its connections to itself, and only source ranges of frontends
 * name other addresses.
 */
const inTable = perObject(({ settings, frontends }: NftState): EndpointTreatment => {
  const all = [...frontends].map(([key, lines]) => readFrontend(key, lines));
  const masked = new Set(all.flatMap(({ here = [] }) => here));
  const ranges = [...all.flatMap((one) => one.ranges), ...settings.map((setting) => setting.split(' ')[1] ?? '')];
  return {
    masked,
    unmasked: new Set(all.flatMap((one) => addressesHere(one, (address) => !masked.has(address)))),
    special: new Set(ranges.map((range) => range.replace(/\/(?:32|128)$/, ''))),
  };
});
