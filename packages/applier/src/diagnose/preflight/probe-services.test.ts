import { expect, test } from 'vitest';
import { nftBundle } from '../../../../bundle/src/virtual/nft.fixture.ts';
import { defaultConfig, type ProbeConfig } from '../../config.ts';
import { sampleBundle } from '../../testing/bundle.fixture.ts';
import { probeServiceFindings } from './probe-services.ts';

const config = defaultConfig('node-a');
const on = { ...config, probation: { ...config.probation, perService: true } };
const probesOf = (...services: readonly (string | undefined)[]): ProbeConfig[] =>
  services.map((service, at) => ({
    name: `p${at}`,
    service,
    tcp: '10.96.0.10:80',
    attempts: 1,
    intervalSeconds: 1,
    timeoutSeconds: 1,
  }));

test.each([
  ['says nothing without the option', { ...config, probes: probesOf('shop/cart') }, nftBundle(), []],
  [
    'says that the mode has no rollback of single Services',
    { ...on, probes: probesOf('shop/web') },
    sampleBundle(),
    ['note not in mode iptables: a release that fails is rolled back as a whole'],
  ],
  [
    'says that no probe names a Service',
    { ...on, probes: probesOf(undefined) },
    nftBundle(),
    ['note no probe names its Service'],
  ],
  [
    'names a Service that the bundle does not have',
    { ...on, probes: probesOf('shop/cart', 'shop/tpyo') },
    nftBundle(),
    ['note the bundle has no Service shop/tpyo, which a probe names'],
  ],
  [
    'counts the Services',
    { ...on, probes: probesOf('shop/cart', 'shop/web', 'shop/cart') },
    nftBundle(),
    ['good probes name 2 Services'],
  ],
] as const)('%s', (_title, given, files, expected) => {
  const found = probeServiceFindings(given, files).map(({ level, what }) => `${level} ${/\((.*)\)$/.exec(what)?.[1]}`);
  expect(found).toEqual(expected);
});
