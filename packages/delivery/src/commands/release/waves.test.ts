import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import { sluice } from '../../../../sluice/src/in-process.fixture.ts';
import { releaseScratch } from './scratch.fixture.ts';

const { scratch, release, make } = releaseScratch();
const at = (name: string): string => join(scratch, name);

function writeWaves(waves: string): string {
  writeFileSync(at('waves.yaml'), `apiVersion: sluice.dev/v1alpha1\nkind: Waves\nwaves: ${waves}\n`);
  return at('waves.yaml');
}
/** Node → its labels, as kubectl prints them. */
function writeNodes(labels: Readonly<Record<string, object>>): string {
  const items = Object.entries(labels).map(([name, own]) => ({ kind: 'Node', metadata: { name, labels: own } }));
  writeFileSync(at('nodes.json'), JSON.stringify({ kind: 'List', items }));
  return at('nodes.json');
}
const listed = (): string => readFileSync(join(release, 'waves.yaml'), 'utf8').split('\n').slice(3).join(' ');

describe('waves by selector', () => {
  test('are lists in the release, and are printed with their zones and what chose them', async () => {
    const waves = writeWaves('[{name: first, zone: b}, {name: others, nodes: rest}]');
    const { status, stdout, stderr } = await make('--wave', waves);
    expect({ status, stdout }).toEqual({ status: 0, stdout: '1\n' });
    expect(stderr).toContain('wave 1  first   1 node (zone b: 1)  zone b\n');
    expect(stderr).toContain('wave 2  others  1 node (zone a: 1)  the rest\n');
    expect(listed()).toBe(
      '  - name: "first"     nodes:       - "node-2"   - name: "others"     nodes:       - "node-1" ',
    );
  });

  test('are in the JSON, and the same waves are the same release', async () => {
    const waves = writeWaves('[{name: canary, count: 1}, {name: others, nodes: rest, maxUnavailable: 1}]');
    const result = async () => JSON.parse((await make('--wave', waves, '--report', 'json')).stdout) as object;
    const first = await result();
    expect(first).toMatchObject({
      serial: 1,
      same: false,
      waves: [
        { name: 'canary', nodes: 1, chosenBy: '1 of all nodes' },
        { name: 'others', nodes: 1, chosenBy: 'the rest' },
      ],
    });
    const before = listed();
    expect(await result()).toMatchObject({ serial: 1, same: true });
    expect(listed()).toBe(before);
    expect(JSON.parse((await make('--report', 'json')).stdout)).toMatchObject({ serial: 2, waves: [] });
  });

  test('choose by the labels of --nodes', async () => {
    const waves = writeWaves('[{name: edge, label: {pool: edge}}, {name: others, nodes: rest}]');
    const nodes = writeNodes({ 'node-1': {}, 'node-2': { pool: 'edge' }, 'node-3': { pool: 'edge' } });
    expect(await make('--wave', waves, '--nodes', nodes)).toMatchObject({
      status: 0,
      stderr: expect.stringContaining('wave 1  edge    1 node (zone b: 1)  label pool=edge\n'),
    });
  });

  test.each([
    ['a label without --nodes', () => [], 'wave edge chooses by label, without --nodes'],
    [
      'a Node that is missing there',
      () => ['--nodes', writeNodes({ 'node-2': { pool: 'edge' } })],
      'has no Node node-1',
    ],
    [
      'a label that no node has',
      () => ['--nodes', writeNodes({ 'node-1': {}, 'node-2': {} })],
      'wave edge has no node',
    ],
    ['a file that is no list of Nodes', () => ['--nodes', at('waves.yaml')], 'it is no list of Nodes in JSON'],
  ] as const)('refuse %s', async (_title, more, expected) => {
    const waves = writeWaves('[{name: edge, label: {pool: edge}}, {name: others, nodes: rest}]');
    expect(await make('--wave', waves, ...more())).toMatchObject({
      status: 2,
      stderr: expect.stringContaining(expected),
    });
  });

  test('need --wave beside --nodes', async () => {
    expect(await make('--nodes', writeNodes({}))).toMatchObject({
      status: 2,
      stderr: expect.stringContaining("option '--nodes <FILE>' needs '--wave <FILE>'"),
    });
  });

  test('stay as they are in an endpoint update, byte for byte', async () => {
    await make('--wave', writeWaves('[{name: all, nodes: rest, maxUnavailable: 1}]'));
    const before = listed();
    writeFileSync(
      join(scratch, 'bundle/cluster.yaml'),
      `${readFileSync(join(scratch, 'bundle/cluster.yaml'), 'utf8')}# 1\n`,
    );
    expect(
      await sluice('release', join(scratch, 'bundle'), '--endpoints', '--source', 'd'.repeat(40), '-o', release),
    ).toMatchObject({ status: 0, stderr: expect.stringContaining('as in the updated release') });
    expect(listed()).toBe(before);
  });
});
