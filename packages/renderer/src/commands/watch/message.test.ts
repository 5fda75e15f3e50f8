import { expect, test } from 'vitest';
import { firstMessageOf, messageOf, thingsOf } from './message.ts';

const services = (count: number): readonly string[] =>
  Array.from({ length: count }, (_, index) => `Service shop/s${String(index).padStart(3, '0')}`);

test.each([
  [[], 'watch: current state of the cluster'],
  [['Service shop/web'], 'watch: Service shop/web'],
  [['Service shop/web', 'Node a', 'Service shop/api'], 'watch: Node a, Service shop/api, Service shop/web'],
])('names up to three changed objects in one line: %j', (about, message) => {
  expect(messageOf(about)).toBe(message);
});

test('names three of many objects in the first line and all of them below', () => {
  const [head, empty, ...rest] = messageOf(services(5)).split('\n');
  expect(head).toBe('watch: Service shop/s000, Service shop/s001, Service shop/s002 and 2 more');
  expect(empty).toBe('');
  expect(rest).toEqual(services(5));
});

test('truncates a long message with an ellipsis', () => {
  const lines = messageOf(services(1000)).split('\n');
  expect(lines[0]).toMatch(/ and 997 more$/);
  expect(lines).toHaveLength(203);
  expect(lines.at(-1)).toBe('…');
});

const files = (...paths: readonly string[]): Map<string, string> => new Map(paths.map((path) => [path, '']));
const [cluster, nodeA, nodeB] = ['cluster.yaml', 'nodes/a/node.yaml', 'nodes/b/node.yaml'];
const web = 'profiles/default/services/shop/web.iptables';

test.each([
  [files(cluster), 'sluice: initial render of 0 Services for 0 nodes'],
  [files(cluster, nodeA, web), 'sluice: initial render of 1 Service for 1 node'],
  [
    files(
      cluster,
      nodeA,
      nodeB,
      web,
      'profiles/default/services/shop/web.ip6tables',
      'profiles/other/services/shop/web.ipset',
    ),
    'sluice: initial render of 1 Service for 2 nodes',
  ],
])('the first commit message counts Services and nodes across profiles and families: %#', (bundle, message) => {
  expect(firstMessageOf(bundle)).toBe(message);
});

test('maps files to Services, Nodes and Profiles', () => {
  const paths = [
    web,
    'profiles/default/services/shop/web.ip6tables',
    nodeB,
    cluster,
    'profiles/default/base/first.iptables',
  ];
  expect(thingsOf(paths)).toEqual(['Node b', 'Profile default', 'Service shop/web']);
});
