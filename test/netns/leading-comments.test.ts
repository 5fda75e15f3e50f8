// @module-tag test
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { isOwnChain, serviceKeyOf, targetOf } from '@sluice/netfilter';
import { programPath } from '@sluice/testing';
import { execaSync } from 'execa';
import { afterAll, beforeEach, describe, expect, test } from 'vitest';
import { needBackend, needKernel } from './privileges.ts';
import { feed, inScratchNamespace } from './scratch.ts';

/** The comments by which rules in a kernel name their Service. */

const root = join(import.meta.dirname, '../..');
const sluice = programPath('sluice');
const scratch = mkdtempSync(join(tmpdir(), 'sluice-comments-'));
beforeEach(needKernel);
afterAll(() => rmSync(scratch, { recursive: true }));

/** A Service with every kind of frontend, under the longest names of Kubernetes (63 characters each). */
const [namespace, name, port] = ['n', 's', 'p'].map((letter) => letter.repeat(63)) as [string, string, string];
const objects = [
  {
    apiVersion: 'v1',
    kind: 'Service',
    metadata: { namespace, name },
    spec: {
      type: 'LoadBalancer',
      clusterIP: '10.96.0.10',
      clusterIPs: ['10.96.0.10'],
      ipFamilies: ['IPv4'],
      externalIPs: ['192.0.2.50'],
      externalTrafficPolicy: 'Local',
      healthCheckNodePort: 32_000,
      loadBalancerSourceRanges: ['198.51.100.0/24'],
      ports: [{ name: port, port: 80, protocol: 'TCP', nodePort: 30_080 }],
    },
    status: { loadBalancer: { ingress: [{ ip: '203.0.113.9' }] } },
  },
  {
    apiVersion: 'v1',
    kind: 'Service',
    metadata: { namespace, name: 'empty' },
    spec: { clusterIP: '10.96.0.11', clusterIPs: ['10.96.0.11'], ports: [{ name: port, port: 80, protocol: 'TCP' }] },
  },
  {
    apiVersion: 'discovery.k8s.io/v1',
    kind: 'EndpointSlice',
    metadata: { namespace, name: 'slice', labels: { 'kubernetes.io/service-name': name } },
    addressType: 'IPv4',
    ports: [{ name: port, port: 8080, protocol: 'TCP' }],
    endpoints: [{ addresses: ['10.244.1.5'], conditions: { ready: true }, nodeName: 'node-1' }],
  },
  {
    apiVersion: 'v1',
    kind: 'Node',
    metadata: { name: 'node-1' },
    spec: { podCIDR: '10.244.1.0/24' },
    status: { addresses: [{ type: 'InternalIP', address: '192.0.2.11' }], capacity: { cpu: '2' } },
  },
];

function show(layout: string): string {
  writeFileSync(join(scratch, 'all.json'), JSON.stringify({ apiVersion: 'v1', kind: 'List', items: objects }));
  const output = join(scratch, 'rendered');
  execaSync(sluice, ['render', '-f', join(scratch, 'all.json'), '-o', output]);
  const options = ['--node', 'node-1', '--tool', 'iptables', '--layout', layout];
  return execaSync(sluice, ['show', output, ...options], { stripFinalNewline: false }).stdout;
}

/** Rules and chains without counters and dates. */
const rulesIn = (saved: string): readonly string[] =>
  saved
    .split('\n')
    .flatMap((line) => (/^(?:-A|:(?:KUBE|SLU)|\*)/.test(line) ? [line.replace(/ \[\d+:\d+\]$/, '')] : []));

describe.each(['nft', 'legacy'] as const)('on %s', (backend) => {
  beforeEach((context) => needBackend(context, backend));
  const tool = `iptables-${backend}`;

  test.each(['flat', 'tree'])(
    'layout %s: rules with the longest names begin their comment with the Service, and survive save and restore',
    (layout) => {
      const loaded = feed(`${tool}-restore --noflush`, show(layout));
      const again = `${tool}-save > /run/first\n${tool}-restore < /run/first\n${tool}-save > /run/second`;
      const both = inScratchNamespace(`${loaded}\n${again}\ncat /run/first\necho =====\ncat /run/second\n`);
      const [first = '', second = ''] = both.split('=====\n');
      expect(rulesIn(second)).toEqual(rulesIn(first));
      const rules = rulesIn(first).filter((line) => line.startsWith('-A '));
      const leading = rules.filter((rule) => !isOwnChain(rule.split(' ')[1] ?? '') && isOwnChain(targetOf(rule) ?? ''));
      expect(leading.length).toBeGreaterThanOrEqual(4);
      expect(leading.map(serviceKeyOf)).toEqual(leading.map(() => `${namespace}/${name}:${port}`));
      const refusing = rules.filter((rule) => / -j (?:REJECT|DROP)/.test(rule) && / -d (?:10\.96|203\.0)/.test(rule));
      expect(refusing.length).toBeGreaterThanOrEqual(2);
      expect(refusing.map((rule) => serviceKeyOf(rule)?.startsWith(`${namespace}/`))).toEqual(refusing.map(() => true));
      const lengths = [...first.matchAll(/ --comment "([^"]*)"/g)].map(([, comment = '']) => comment.length);
      expect(Math.max(...lengths)).toBeGreaterThan(220);
      // XT_MAX_COMMENT_LEN is 256 with the NUL at its end (linux/netfilter/xt_comment.h).
      expect(Math.max(...lengths)).toBeLessThanOrEqual(255);
    },
  );

  test('a kernel prints the rules of docs/layouts.md as the page shows them', () => {
    const page = readFileSync(join(root, 'docs/layouts.md'), 'utf8');
    const [, block = ''] = /--layout tree\n(\*nat\n[^`]*)```/.exec(page) ?? [];
    const expected = block.split('\n').filter((line) => line.startsWith('-A '));
    expect(expected).toHaveLength(3);
    const options = ['examples/01-cluster-ip/out', '--node', 'node-1', '--tool', 'iptables', '--layout', 'tree'];
    const text = execaSync(sluice, ['show', ...options], { cwd: root, stripFinalNewline: false }).stdout;
    const saved = inScratchNamespace(`${feed(`${tool}-restore --noflush`, text)}\n${tool}-save -t nat\n`);
    expect(saved.split('\n')).toEqual(expect.arrayContaining(expected));
  });
});
