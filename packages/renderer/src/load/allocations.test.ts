import { mkdirSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, onTestFinished, test } from 'vitest';
import type { Allocation } from '../render/allocate/allocation.ts';
import { allocationPath, printAllocation, readAllocation, readAllocations } from './allocations.ts';

const file = 'allocations/shop/web.yaml';
const full: Allocation = {
  namespace: 'shop',
  name: 'web',
  file,
  clusterIPs: ['10.96.0.31', 'fd00:96::1f'],
  nodePorts: { '/UDP': 30001, 'http/TCP': 30002 },
  healthCheckNodePort: 30003,
};

test('prints a small file with its purpose', () => {
  expect(
    printAllocation(full),
  ).toBe(`# Given by sluice. Commit this file: as long as it stays, the Service keeps these numbers.
apiVersion: sluice.dev/v1alpha1
kind: Allocation
clusterIPs:
  - 10.96.0.31
  - fd00:96::1f
nodePorts:
  /UDP: 30001
  http/TCP: 30002
healthCheckNodePort: 30003
`);
});

test.each([
  ['everything', full],
  ['an address alone', { namespace: 'shop', name: 'web', file, clusterIPs: ['10.96.0.31'], nodePorts: {} }],
  [
    'ports alone',
    { namespace: 'shop', name: 'web', file, clusterIPs: [], nodePorts: { 'a/TCP': 1, 'a-b/SCTP': 65535 } },
  ],
] as const)('reads back what it prints: %s', (_title, allocation) => {
  expect(readAllocation(file, printAllocation(allocation))).toEqual(allocation);
});

test('reads an address in canonical form', () => {
  const text = 'apiVersion: sluice.dev/v1alpha1\nkind: Allocation\nclusterIPs: ["FD00:0::1"]\n';
  expect(readAllocation(file, text)).toMatchObject({ clusterIPs: ['fd00::1'], nodePorts: {} });
});

const head = 'apiVersion: sluice.dev/v1alpha1\nkind: Allocation\n';
test.each([
  ['an unknown field', `${head}clusterIP: 10.96.0.1`, 'ALLOCATION_INVALID 3:1'],
  ['another kind', head.replace('Allocation', 'Service'), 'ALLOCATION_INVALID 2:7'],
  ['no address', `${head}clusterIPs: [web]`, 'ALLOCATION_INVALID 3:14'],
  ['two addresses of one family', `${head}clusterIPs: [10.96.0.1, 10.96.0.2]`, 'ALLOCATION_INVALID 3:13'],
  ['a port without a protocol', `${head}nodePorts: { http: 30000 }`, 'ALLOCATION_INVALID 3:14'],
  ['a port out of range', `${head}nodePorts: { http/TCP: 70000 }`, 'ALLOCATION_INVALID 3:24'],
  ['one number twice', `${head}nodePorts: { a/TCP: 30000, b/TCP: 30000 }`, 'ALLOCATION_INVALID 3:35'],
  [
    'a node port as health-check port',
    `${head}nodePorts: { a/TCP: 30000 }\nhealthCheckNodePort: 30000`,
    'ALLOCATION_INVALID 4:22',
  ],
  ['an unfinished merge', `${head}<<<<<<< HEAD\nclusterIPs: [10.96.0.1]\n=======\n`, 'YAML_SYNTAX 4:11'],
  ['a duplicate key', `${head}kind: Allocation`, 'YAML_DUPLICATE_KEY 3:1'],
])('reports %s at its place', (_title, text, expected) => {
  const read = readAllocation(file, text);
  const first = 'problems' in read ? read.problems[0] : undefined;
  expect(`${first?.code} ${first?.at?.line}:${first?.at?.column}`).toBe(expected);
});

test.each(['allocations/web.yml', 'Shop/web.yaml', 'shop/-web.yaml', 'shop/a.b.yaml'])(
  'refuses the path %s',
  (path) => {
    expect(readAllocation(path, printAllocation(full))).toMatchObject({
      problems: [{ code: 'ALLOCATION_INVALID', at: { file: path } }],
    });
  },
);

/** A directory with these files that is gone after the test. */
function directoryOf(files: Readonly<Record<string, string>>): string {
  const root = mkdtempSync(join(tmpdir(), 'sluice-allocations-'));
  onTestFinished(() => rmSync(root, { recursive: true }));
  for (const [path, text] of Object.entries(files)) {
    mkdirSync(join(root, path, '..'), { recursive: true });
    writeFileSync(join(root, path), text);
  }
  return root;
}

test('reads a directory in byte order and ignores other files', () => {
  const other: Allocation = { namespace: 'data', name: 'db', clusterIPs: ['10.96.0.9'], nodePorts: {} };
  const root = directoryOf({
    [allocationPath(full)]: printAllocation(full),
    [allocationPath(other)]: printAllocation(other),
    'README.md': '# what this is',
    'shop/.web.yaml.swp': 'x',
    '.git/config.yaml': 'x',
  });
  expect(readAllocations(root)).toEqual({
    allocations: [
      { ...other, file: `${root}/data/db.yaml` },
      { ...full, file: `${root}/shop/web.yaml` },
    ],
    problems: [],
  });
});

test('reads valid files beside invalid ones', () => {
  const root = directoryOf({
    'shop/web.yaml': printAllocation(full),
    'shop/bad.yaml': 'x',
    'lost.yaml': printAllocation(full),
  });
  const { allocations, problems } = readAllocations(root);
  expect(allocations.map(({ name }) => name)).toEqual(['web']);
  expect(problems.map(({ at }) => at?.file)).toEqual([`${root}/lost.yaml`, `${root}/shop/bad.yaml`]);
});

test('does not follow a link in place of an allocation', () => {
  const directory = mkdtempSync(join(tmpdir(), 'sluice-allocations-'));
  onTestFinished(() => rmSync(directory, { recursive: true }));
  mkdirSync(join(directory, 'shop'));
  writeFileSync(join(directory, 'elsewhere'), printAllocation(full));
  symlinkSync('../elsewhere', join(directory, 'shop/web.yaml'));
  const { allocations, problems } = readAllocations(directory);
  expect(allocations).toEqual([]);
  expect(problems).toMatchObject([
    { code: 'ALLOCATION_INVALID', message: expect.stringContaining('not a regular file') },
  ]);
});

test('reads a missing directory as empty', () => {
  expect(readAllocations('/nowhere/at/all')).toEqual({ allocations: [], problems: [] });
});

test('mentions allocations in the problem of a file in place of the directory', () => {
  const place = mkdtempSync(join(tmpdir(), 'sluice-allocations-'));
  onTestFinished(() => rmSync(place, { recursive: true }));
  const notADirectory = join(place, 'file');
  writeFileSync(notADirectory, '');
  expect(readAllocations(notADirectory).problems).toMatchObject([
    {
      code: 'INPUT_UNREADABLE',
      message: `Cannot read the allocations in ${notADirectory}: a part of the path is not a directory`,
    },
  ]);
});
