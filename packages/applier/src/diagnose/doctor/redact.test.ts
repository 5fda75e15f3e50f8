import { diagnose } from '@sluice/netfilter';
import { expect, test } from 'vitest';
import { frontend, healthy } from './checks/healthy.fixture.ts';
import type { Facts } from './facts.ts';
import { archiveFiles, Redaction } from './redact.ts';

test.each([
  ['shop/web:http on worker-eu-1 has 10.96.0.10', 'namespace-1/service-1:http on node-1 has 10.96.0.10'],
  ['8.8.8.8 and 8.8.8.8, then 9.9.9.9/32', 'address-1 and address-1, then address-2/32'],
  ['[2a00:1450::5]:443 and fd00::5', '[address-1]:443 and fd00::5'],
  ['8.8.8.8:53, --to-destination 9.9.9.9:80', 'address-1:53, --to-destination address-2:80'],
  ['[::ffff:8.8.8.8]:443 and 10.0.0.1:80', '[::ffff:address-1]:443 and 10.0.0.1:80'],
  ['kubectl -n shop describe service web', 'kubectl -n namespace-1 describe service service-1'],
  ['shop/web-2 and my-shop/web stay apart', 'namespace-1/service-2 and my-shop/web stay apart'],
  [
    'goto service-ULMVA6XW-shop/web/tcp/http or endpoint-GTK6MW7G-shop/web-2/tcp/http__10.244.1.5/80',
    'goto service-ULMVA6XW-namespace-1/service-1/tcp/http or endpoint-GTK6MW7G-namespace-1/service-2/tcp/http__10.244.1.5/80',
  ],
  ['version 1.8.9, at 12:30:45, 127.0.0.1', 'version 1.8.9, at 12:30:45, 127.0.0.1'],
  [
    'kubectl -n shop get endpointslices -l kubernetes.io/service-name=web',
    'kubectl -n namespace-1 get endpointslices -l kubernetes.io/service-name=service-1',
  ],
])('redacts %s', (text, expected) => {
  expect(new Redaction('worker-eu-1', ['shop/web:http', 'shop/web-2']).apply(text)).toBe(expected);
});

test('no name and no public address is left in an archive', () => {
  const declared = frontend({
    service: 'bank/ledger:api',
    address: '8.8.4.4',
    endpoints: [{ text: '10.244.1.5:8080', weight: 1 }],
  });
  const facts: Facts = {
    ...healthy,
    node: 'vault-7',
    desired: { ...healthy.desired!, frontends: [declared], nodeAddresses: ['1.2.3.4'] },
    sysctls: new Map([['net/ipv4/ip_forward', '1']]),
  };
  const diagnosis = diagnose(
    'bank/ledger',
    [{ code: 'NO_ROUTE', certainty: 'certain', about: '1.2.3.4', evidence: ['vault-7'], fix: 'ip route' }],
    [],
  );
  const all = [...archiveFiles(diagnosis, facts).values()].join('');
  expect(all).not.toMatch(/bank|ledger|vault-7|1\.2\.3\.4|8\.8\.4\.4/);
  expect(all).toContain('10.244.1.5:8080');
  expect(all).toContain('"net/ipv4/ip_forward": "1"');
});

test('names of Services are not left where only rules of another program, or the daemon, tell them', () => {
  const rule = '-A KUBE-SERVICES -d 10.96.0.10/32 -m comment --comment "bank/ledger:api cluster IP" -j KUBE-SVC-X';
  const facts = {
    node: 'vault-7',
    sluiced: {
      ...healthy.sluiced,
      quarantinedServices: [{ service: 'bank/vault', because: 'its probe failed' }],
      bundle: { kind: 'refused', message: 'Cannot apply bank/teller:http' },
      alarms: { RELEASE_PARTIAL: 'bank/vault was left out' },
    },
    tables: { nft: { ipv4: { nat: [rule, '-A KUBE-SEP-Y -m comment --comment bank/clerk -j KUBE-MARK-MASQ'] } } },
    nftTables: [
      {
        family: 'ip',
        name: 'fw',
        objects: [
          { chain: { name: 'f', comment: 'for bank' } },
          { rule: { chain: 'f', handle: 1, comment: 'bank/teller', expr: [{ drop: null }] } },
          { chain: { name: 'service-ULMVA6XW-bank/desk/tcp/api' } },
          { rule: { chain: 'f', handle: 2, expr: [{ jump: { target: 'external-ULMVA6XW-bank/desk/tcp/api' } }] } },
          { set: { name: 's', elem: [{ elem: { val: '10.0.0.1', comment: 'bank/clerk' } }] } },
        ],
      },
    ],
    unread: [],
  } as unknown as Facts;
  const all = [...archiveFiles(diagnose('all Services', [], []), facts).values()].join('');
  expect(all).not.toMatch(/bank|ledger|teller|clerk|vault|desk/);
});
