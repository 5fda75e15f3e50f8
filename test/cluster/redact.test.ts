import { existsSync, readdirSync } from 'node:fs';
import { join } from 'node:path';
import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { canonicalCidr, cidrContains } from '@sluice/netfilter';
import { keep } from '../../packages/renderer/src/cluster/keep.ts';
import { listedKinds } from '../../packages/renderer/src/cluster/kinds.ts';
import { AddressReplacer } from '../../packages/renderer/src/cluster/redact/address.ts';
import { type Replacements, replacementsFor, redact } from '../../packages/renderer/src/cluster/redact/redact.ts';
import { printSnapshot, type Snapshot } from '../../packages/renderer/src/cluster/snapshot.ts';
import { readConfig } from '../../packages/renderer/src/load/config/config.ts';
import { load } from '../../packages/renderer/src/load/load.ts';
import { readSources } from '../../packages/renderer/src/load/sources.ts';
import type { JsonObject } from '../../packages/renderer/src/render/model/kube.ts';
import { render } from '../../packages/renderer/src/render/render.ts';

const examples = join(import.meta.dirname, '..', '..', 'examples');
const inputs = readdirSync(examples).filter((name) => existsSync(join(examples, name, 'in')));

/** An example's objects as a snapshot of a cluster that holds them. */
async function snapshotOf(example: string): Promise<Snapshot> {
  const how = { recursive: true, stdin: process.stdin };
  const { objects } = load((await readSources([join(examples, example, 'in')], how)).sources);
  const parts = new Map<string, JsonObject[]>();
  for (const { kind, value } of objects) {
    const { resource } = listedKinds[kind];
    parts.set(resource, [...(parts.get(resource) ?? []), keep(listedKinds[kind], value)]);
  }
  return {
    header: { apiVersion: 'sluice.dev/v1alpha1', kind: 'Snapshot', format: 1, complete: true },
    parts,
    notes: [],
  };
}

function rulesOf(snapshot: Snapshot): ReadonlyMap<string, string> {
  const { objects } = load([{ file: 'snapshot', text: printSnapshot(snapshot) }]);
  const { config } = readConfig({ kubeProxy: [] });
  const input = { base: [], change: objects, config, allocations: [], allocate: false, snapshot: true, strict: false };
  const { files, problems } = render(input);
  expect(problems.filter(({ level }) => level === 'error')).toEqual([]);
  return files;
}

/**
 * The lines of all rules with replaced names, without the parts that follow from the order of addresses: which endpoint is first,
 * and the hashes in the names of chains.
 */
function shapeOf(files: ReadonlyMap<string, string>, others: Replacements): readonly string[] {
  const lines = [...files].filter(([path]) => path.includes('/services/')).flatMap(([, text]) => text.split('\n'));
  return lines.map((line) => underOthers(line, others)).toSorted();
}

function underOthers(line: string, others: Replacements): string {
  return line
    .replaceAll(/(KUBE-[A-Z]{2,3})-[A-Z2-7]{16}/g, '$1')
    .replace(/ -> [^" ]+/, '')
    .replaceAll(/\b\d+\.\d+\.\d+\.\d+(?:\/\d+)?/g, (text) => others.address(text))
    .replaceAll(/[0-9a-f]*:[0-9a-f:]*:[0-9a-f]*(?:\/\d+)?/g, (text) =>
      canonicalCidr(text.includes('/') ? text : `${text}/128`) ? others.address(text) : text,
    )
    .replaceAll(/\b([a-z][a-z0-9-]*)\/([a-z][a-z0-9-]*)(?::([a-z0-9-]+))?/g, (_all, ...names) => keyOf(names, others))
    .replace(/^(# endpoint )(.*)$/, '$1')
    .replace(/^# .*(TCP|UDP|SCTP).*$/, '# port')
    .replaceAll(/(?<=@(?:zone|node)!?=)\S+/g, (list) =>
      list
        .split(',')
        .map((name) => placeOf(name, line, others))
        .join(),
    );
}

/** `shop/web:http` */
function keyOf([namespace, service, port]: readonly string[], others: Replacements): string {
  const key = `${others.name('namespace', namespace ?? '')}/${others.name('service', service ?? '')}`;
  return port === undefined ? key : `${key}:${others.name('port', port)}`;
}

const placeOf = (name: string, line: string, others: Replacements): string =>
  others.name(line.includes('@zone') ? 'zone' : 'node', name);

/** Nothing changes: what the redacted rules are compared under. */
const same: Replacements = { address: (text) => text, name: (_sort, text) => text };

describe('a redacted snapshot', () => {
  test.each(inputs)('of %s renders to the same rules with replaced names', async (example) => {
    const snapshot = await snapshotOf(example);
    const before = rulesOf(snapshot);
    const after = rulesOf(redact(snapshot));
    expect(after.size).toBe(before.size);
    expect(shapeOf(after, same)).toEqual(shapeOf(before, replacementsFor(snapshot)));
  });

  test.each(inputs)('of %s has none of its names and addresses', async (example) => {
    const snapshot = await snapshotOf(example);
    const text = printSnapshot(redact(snapshot));
    const secrets = [
      ...printSnapshot(snapshot).matchAll(/^ +(?:namespace|nodeName|clusterIP|name): ([a-z0-9.-]{3,})$/gm),
    ];
    expect(secrets.length).toBeGreaterThan(3);
    const words = new Set(text.split(/[^A-Za-z0-9.-]+/));
    // Names of the examples such as node-1 may be replacements, too.
    const kept = secrets.filter(([, secret]) => words.has(secret ?? '') && !/^[a-z]+-[0-9]+$/.test(secret ?? ''));
    expect(kept).toEqual([]);
  });

  test('is deterministic', async () => {
    const snapshot = await snapshotOf(inputs[0] as string);
    expect(printSnapshot(redact(snapshot))).toBe(printSnapshot(redact(await snapshotOf(inputs[0] as string))));
  });
});

test('drops unknown fields and custom labels', () => {
  const service: JsonObject = {
    apiVersion: 'v1',
    kind: 'Service',
    metadata: {
      name: 'payroll',
      namespace: 'acme',
      labels: { 'acme.example/owner': 'jane' },
      annotations: {
        'service.kubernetes.io/topology-mode': 'acme',
        'service.beta.kubernetes.io/load-balancer-source-ranges': '10.96.0.0/16,acme',
        'acme.example/x': 'jane',
        'acme.example/source-ranges': 'jane',
      },
    },
    spec: { clusterIP: '10.96.0.1', newField: 'jane', externalName: 'db.acme.example', selector: { app: 'payroll' } },
  };
  const text = printSnapshot(
    redact({ header: { asked: { namespaces: ['acme'] } }, parts: new Map([['services', [service]]]), notes: [] }),
  );
  expect(text).not.toMatch(/payroll|acme|jane|newField|10\.96\.0\.[01]/);
  // `sluice policy` names it, whatever its value is.
  expect(text).toMatch(/load-balancer-source-ranges: \S+\/16,\S+/);
  expect(text).toContain('namespaces:\n    - namespace-1');
  expect(text).toContain('service.kubernetes.io/topology-mode: Auto');
});

test('ServiceCIDRs contain the same ClusterIPs, and only the one of the API server keeps its name', () => {
  const typed = { apiVersion: 'networking.k8s.io/v1', kind: 'ServiceCIDR' };
  const status = { conditions: [{ type: 'Ready', status: 'False' }] };
  const deletionTimestamp = '2026-01-02T03:04:05Z';
  const service: JsonObject = {
    apiVersion: 'v1',
    kind: 'Service',
    metadata: { name: 'payroll', namespace: 'acme' },
    spec: { clusterIP: '10.200.7.9', ports: [{ port: 80 }] },
  };
  const { parts } = redact({
    header: {},
    parts: new Map<string, readonly JsonObject[]>([
      ['services', [service]],
      [
        'servicecidrs',
        [
          { ...typed, metadata: { name: 'acme', deletionTimestamp }, spec: { cidrs: ['10.200.0.0/16'] }, status },
          { ...typed, metadata: { name: 'kubernetes' }, spec: { cidrs: ['10.96.0.0/12'] } },
        ],
      ],
    ]),
    notes: [],
  });
  const [[acme, api], [web]] = [parts.get('servicecidrs'), parts.get('services')] as unknown as [
    Record<'metadata' | 'spec', { name: string; cidrs: [string] }>[],
    { spec: { clusterIP: string } }[],
  ];
  expect([acme?.metadata.name, api?.metadata.name]).toEqual(['range-1', 'kubernetes']);
  expect(acme).toMatchObject({ metadata: { deletionTimestamp }, status });
  expect([acme?.spec.cidrs[0], api?.spec.cidrs[0]]).not.toContain('10.200.0.0/16');
  expect(cidrContains(canonicalCidr(acme?.spec.cidrs[0] ?? '') ?? '', web?.spec.clusterIP ?? '')).toBe(true);
});

test("keeps the fields of kube-proxy's configuration that rules depend on, also words among addresses", () => {
  const conf =
    'kind: KubeProxyConfiguration\nfeatureGates: { AllowServiceExternalIPs: false, Acme: true }\nnodePortAddresses: [primary, localhost, all, 10.9.8.0/24]\n';
  const configMap = { kind: 'ConfigMap', metadata: { name: 'kube-proxy' }, data: { 'config.conf': conf } };
  const text = printSnapshot(redact({ header: {}, parts: new Map([['configmaps', [configMap]]]), notes: [] }));
  expect(text).toContain('AllowServiceExternalIPs: false');
  expect(text).toMatch(/- primary\n +- localhost\n +- all\n +- \d/);
  expect(text).not.toMatch(/Acme|10\.9\.8\.0/);
});

test('replaces names of ConfigMaps and keys, and leaves out the documents beside the configuration', () => {
  const conf = 'secret: acme-token\n---\nkind: KubeProxyConfiguration\nclusterCIDR: 10.9.0.0/16\nacme: a\n';
  const parts = new Map([
    [
      'configmaps',
      [
        { kind: 'ConfigMap', metadata: { name: 'acme-proxy' }, data: { 'acme.yaml': conf, broken: 'acme: [' } },
        { kind: 'ConfigMap', metadata: { name: 'kube-proxy-config' }, data: { config: conf } },
      ],
    ],
  ]);
  const text = printSnapshot(redact({ header: {}, parts, notes: [] }));
  expect(text).not.toMatch(/acme|broken|10\.9\.0\.0/);
  expect(text.match(/clusterCIDR: /g)).toHaveLength(2);
  expect(text).toMatch(/name: config-\d\n[^]*name: kube-proxy-config\n/);
});

describe('other addresses', () => {
  const others = new AddressReplacer(Buffer.from('a key'));
  const octets = fc.tuple(...Array.from({ length: 4 }, () => fc.nat(255)));
  const words = fc.tuple(...Array.from({ length: 8 }, () => fc.nat(0xffff)));
  const v4 = octets.map((parts) => parts.join('.'));
  const v6 = words.map((parts) => parts.map((word) => word.toString(16)).join(':'));

  test.each([
    ['IPv4', v4, 32],
    ['IPv6', v6, 128],
  ] as const)('are in the same networks as the %s addresses, and in no others', (_title, address, bits) => {
    fc.assert(
      fc.property(address, address, fc.nat(bits), (one, network, prefix) => {
        const cidr = `${network}/${prefix}`;
        const other = others.of(cidr);
        expect(cidrContains(other ?? '', others.of(one) ?? '')).toBe(cidrContains(cidr, one));
        expect(cidrContains(other ?? '', others.of(network) ?? '')).toBe(true);
      }),
    );
  });

  test.each([
    ['10.1.2.3', '10.0.0.0/8'],
    ['172.20.1.1', '172.16.0.0/12'],
    ['192.168.7.1', '192.168.0.0/16'],
    ['100.100.1.1', '100.64.0.0/10'],
    ['fd00:1::5', 'fd00::/8'],
    ['2001:db8::7', '2000::/3'],
  ])('%s is replaced by an address of %s', (text, range) => {
    expect(others.of(text)).not.toBe(text);
    expect(cidrContains(range, others.of(text) ?? '')).toBe(true);
  });

  test.each([
    '0.0.0.0',
    '0.0.0.0/0',
    '127.0.0.1',
    '169.254.1.1',
    '224.0.0.1',
    '255.255.255.255',
    '::',
    '::1',
    'fe80::1',
    'ff02::1',
    '::/0',
  ])('%s stays, as it means the same everywhere', (text) => {
    expect(others.of(text)).toBe(text);
  });

  test.each(['', 'a.example', '10.0.0', '10.0.0.0/33'])('%o is not an address', (text) =>
    expect(others.of(text)).toBeUndefined(),
  );
});
