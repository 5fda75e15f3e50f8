// @module-tag all
import type { ParityReport } from '@sluice/bundle';
import { expect, test, vi } from 'vitest';
import { currentOfTier } from './binaries.ts';
import { ObservedKubeProxy, parity } from './observed-node.ts';
import { clusterOfSettings } from './planted.ts';
import { needPrograms } from './programs.ts';
import { nftablesSettings, proxyConfig, type ProxyConfig, type ProxySetting, settings } from './settings.ts';

/** One setting of the real kube-proxy differs from the profile: parity names the configuration as the cause, once for each frontend. */

vi.setConfig({ testTimeout: 600_000 });
const programs = needPrograms(currentOfTier[0]);

const modes = [
  ['iptables', settings],
  ['nftables', nftablesSettings],
] as const;

/** Settings that no packet shows, by mode. */
const unseen: Readonly<Record<string, readonly string[]>> = {
  iptables: [
    'masqueradeBit 10',
    'a machine with liberal TCP windows',
    'node ports on all',
    'node ports on a network of IPv6, any of IPv4',
    'node ports on every address',
  ],
  nftables: ['node ports on networks without loopback', 'node ports on the primary address'],
};

/** What is wrong with the causes of a report; empty: none is, and there is one for each frontend. */
function wrongIn({ differences, coverage }: ParityReport): readonly string[] {
  const places = differences.map(({ family, frontend }) => `${family} ${frontend}`);
  return [
    ...differences.flatMap(({ cause, frontend, source, observed, desired }) =>
      cause === 'config' ? [] : [`${cause}: ${frontend} from ${source.address}: ${observed} => ${desired}`],
    ),
    ...places.filter((place, at) => places.indexOf(place) !== at).map((place) => `twice: ${place}`),
    ...coverage.notCovered.flatMap(({ matters, what, why }) => (matters ? [`${what}: ${why}`] : [])),
  ];
}

const found = ({ title }: ProxySetting, report: ParityReport): readonly [string, string, readonly string[]] => [
  title,
  report.result,
  wrongIn(report),
];

const expected = (mode: string, { title }: ProxySetting): readonly [string, string, readonly string[]] => [
  title,
  unseen[mode]?.includes(title) === true ? 'equivalent' : 'different',
  [],
];

/** The fields of a setting as they are by default. */
const back = (mode: string, { config = {} }: ProxySetting): ProxyConfig => {
  const usual = proxyConfig({ title: '', config: { mode } });
  return Object.fromEntries(Object.keys(config).map((field) => [field, usual[field]]));
};

test.each(modes)('mode %s: each other setting in the profile is named as such', async (mode, [usual, ...others]) => {
  const node = await ObservedKubeProxy.start(programs(), usual, clusterOfSettings);
  try {
    const file = await node.observe();
    const reports = [];
    for (const one of others)
      reports.push(found(one, (await parity(file, await node.render({ ...one.config }))).report));
    expect(reports).toEqual(others.map((one) => expected(mode, one)));
  } finally {
    await node.close();
  }
});

test.each(modes.flatMap(([mode, [, ...others]]) => others.map((one) => [mode, one.title, one] as const)))(
  'mode %s: a kube-proxy with %s is named as such',
  async (mode, _title, setting) => {
    const node = await ObservedKubeProxy.start(programs(), setting, clusterOfSettings);
    try {
      const { report } = await parity(await node.observe(), await node.render(back(mode, setting)));
      // The machine keeps the sysctl, by which neither program drops anything.
      const isOfMachine = setting.title === 'liberal conntrack';
      expect(found(setting, report)).toEqual(isOfMachine ? [setting.title, 'equivalent', []] : expected(mode, setting));
    } finally {
      await node.close();
    }
  },
);
