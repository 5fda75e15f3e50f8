import { expect, test } from 'vitest';
import { readConfig } from '../load/config/config.ts';
import { readText } from '../load/config/text.ts';
import type { KubeProxyInput } from '../load/config/kube-proxy-sources.ts';
import type { JsonObject } from '../render/model/kube.ts';
import { versionByDefault } from '../render/model/version.ts';
import { readKubeProxy } from '../load/config/kubeproxy.ts';
import { initConfig } from './init.ts';

const head = 'apiVersion: kubeproxy.config.k8s.io/v1alpha1\nkind: KubeProxyConfiguration\n';

function kubeProxy(text: string): KubeProxyInput {
  const { value, origin } = readText('proxy.yaml', head + text);
  return { value: value as JsonObject, origin };
}
const proxy = (text: string) => readKubeProxy([kubeProxy(text)]);
const read = (text: string) => saying(readConfig({ sluice: { file: 'sluice.yaml', text }, kubeProxy: [] }));

/** The settings of a config; explicit defaults and the default version do not count as a difference. */
function saying({ config, problems }: ReturnType<typeof readConfig>) {
  const { named: _, ...rest } = config;
  const profiles = config.profiles.map(({ kubeProxyVersion: version = versionByDefault, ...profile }) => ({
    ...profile,
    version,
  }));
  return { config: { ...rest, profiles }, problems };
}

test('names a local schema for editors in the first line', () => {
  expect(initConfig().split('\n')[0]).toBe('# yaml-language-server: $schema=sluiceconfig.schema.json');
});

test('sets nothing but defaults', () => {
  expect(read(initConfig())).toEqual(saying(readConfig({ kubeProxy: [] })));
});

test('sets the same defaults with every field uncommented', () => {
  const active = initConfig()
    .split('\n')
    .map((line) =>
      line.replace(/^( *)# ((?!nodes|nodeSelector|sysctls|KubeProxyNFTables)[A-Za-z]+:(?: \S.*)?)$/, '$1$2'),
    );
  expect(active.filter((line) => /^ *[A-Za-z]/.test(line)).length).toBeGreaterThan(25);
  expect(read(active.join('\n'))).toEqual(saying(readConfig({ kubeProxy: [] })));
});

test.each([
  ['nothing', ''],
  [
    'one field of each kind',
    'mode: iptables\niptables: { masqueradeBit: 15, masqueradeAll: true }\nnodePortAddresses: [10.0.0.0/8, 192.0.2.0/24]\n',
  ],
  ['time-outs', 'conntrack: { tcpEstablishedTimeout: 1h, udpTimeout: 90s, tcpCloseWaitTimeout: 0s, maxPerCore: 0 }\n'],
  ['both families', 'clusterCIDR: 10.244.0.0/16,fd00:10:244::/56\n'],
  ['a detector', 'detectLocalMode: BridgeInterface\ndetectLocal: { bridgeInterface: cni0 }\n'],
])("takes over kube-proxy's values: %s", (_title, text) => {
  const config = initConfig(proxy(text));
  expect(read(config)).toEqual(saying(readConfig({ kubeProxy: [kubeProxy(text)] })));
  // Both files together agree, so nothing is overridden.
  expect(readConfig({ sluice: { file: 'sluice.yaml', text: config }, kubeProxy: [kubeProxy(text)] }).problems).toEqual(
    [],
  );
});

test('does not take over a mode that is not supported', () => {
  expect(read(initConfig(proxy('mode: kernelspace\n')))).toMatchObject({
    config: { profiles: [{ mode: 'iptables' }] },
    problems: [],
  });
});

test('takes over mode nftables with its options', () => {
  expect(read(initConfig(proxy('mode: nftables\nnftables: { masqueradeAll: true }\n'))).config.profiles).toMatchObject([
    { mode: 'nftables', nftables: { masqueradeAll: true } },
  ]);
});

test('takes over mode ipvs with its options', () => {
  const text =
    'mode: ipvs\nipvs: { scheduler: wlc, excludeCIDRs: [192.0.2.0/24], strictARP: true, tcpTimeout: 15m, udpTimeout: 90s }\n';
  expect(read(initConfig(proxy(text))).config.profiles).toMatchObject([
    {
      mode: 'ipvs',
      ipvs: {
        scheduler: 'wlc',
        excludeCIDRs: ['192.0.2.0/24'],
        strictARP: true,
        timeouts: { tcp: 900, tcpFin: 0, udp: 90 },
      },
    },
  ]);
});

test('always writes the version of kube-proxy', () => {
  expect(initConfig()).toContain('\n    kubeProxyVersion: "1.37"\n');
  expect(read(initConfig(undefined, '1.34')).config.profiles).toMatchObject([{ version: '1.34' }]);
});
