import { frontendLines, type NftScheduler, type NftState } from '@sluice/netfilter';
import * as fc from 'fast-check';

/** For tests only: states of mode nftables in which frontends, endpoints and addresses meet again and again. */

const keys4 = ['10.96.0.10 . tcp . 80', '10.96.0.10 . udp . 53', '10.96.0.11 . sctp . 80', '203.0.113.9 . tcp . 443'];
const keys6 = ['fd00:10:96::a . tcp . 80', ':: . udp . 30053'];
const node = '0.0.0.0 . tcp . 30080';

const pods = (isIPv6: boolean): readonly string[] =>
  Array.from({ length: 5 }, (_, at) => (isIPv6 ? `fd00:244::${at + 1} . 8080` : `10.244.1.${at + 1} . 8080`));

function frontend(key: string): fc.Arbitrary<readonly string[]> {
  const isIPv6 = key.includes(':');
  const list = fc.shuffledSubarray([...pods(isIPv6)], { maxLength: 4 });
  const ranges = isIPv6 ? ['fd00:1::/64', 'fd00:2::1'] : ['198.51.100.0/25', '198.51.100.128/25', '192.0.2.1'];
  return fc
    .record({
      isClusterIP: fc.constant(key.startsWith('10.96.') || key.startsWith('fd00:10:96::')),
      outside: fc.constantFrom(undefined, 'cluster', 'local' as const),
      affinitySeconds: fc.constantFrom(undefined, undefined, 600, 10_800),
      scheduler: fc.constantFrom<(NftScheduler | undefined)[]>(
        undefined,
        undefined,
        undefined,
        'round-robin',
        'source-hash',
        'maglev 251',
      ),
      weights: fc.constantFrom<(readonly number[])[]>([], [], [1, 3], [2, 4, 6], [1, 1, 5]),
      none: fc.constantFrom('refuse', 'drop' as const),
      ranges: fc.subarray(ranges),
      endpoints: list,
      local: list,
    })
    .map(({ outside, affinitySeconds, scheduler, weights, none, endpoints, local, ...rest }) => {
      const isLocal = outside === 'local';
      const isServed = endpoints.length > 0 && (!isLocal || local.length > 0);
      return frontendLines({
        ...rest,
        ...(outside ? { outside } : {}),
        ...(affinitySeconds === undefined ? (scheduler ? { scheduler } : {}) : { affinitySeconds }),
        ...(weights.length > 0
          ? { weights: new Map(endpoints.map((one, at) => [one, weights[at % weights.length] ?? 1])) }
          : {}),
        ...(isServed ? {} : { none }),
        endpoints,
        local: isLocal ? local : [],
      });
    });
}

const settingsOf = [
  'table 4 address',
  'pods 10.244.0.0/16',
  'keep 10.244.0.0/16',
  'node 192.0.2.11',
  'cidr 10.96.0.0/16',
];

/** Any states with these settings. */
export function nftStates(settings: fc.Arbitrary<readonly string[]> = fc.constant(settingsOf)): fc.Arbitrary<NftState> {
  const each = [...keys4, ...keys6, node].map((key) =>
    fc.option(frontend(key), { nil: undefined }).map((lines) => [key, lines] as const),
  );
  return fc.tuple(settings, ...each).map(([own, ...all]) => ({
    settings: own,
    frontends: new Map(all.flatMap(([key, lines]) => (lines ? [[key, lines] as const] : []))),
  }));
}

/** Settings of profiles that overlap. */
export const otherSettings: fc.Arbitrary<readonly string[]> = fc.constantFrom(
  settingsOf,
  [...settingsOf, 'health 32090'],
  ['table 4 address', 'pods 10.0.0.0/8', 'keep 0.0.0.0/0', 'node 192.0.2.0/24', 'node fd00::11', 'cidr 10.96.0.0/12'],
  ['table 4 interface cali* masquerade-all', 'node 192.0.2.11', 'node 192.0.2.12', 'cidr fd00:10:96::/112'],
);
