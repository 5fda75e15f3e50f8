// @module-tag test
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { execaSync } from 'execa';
import { afterAll, beforeEach, describe, expect, test } from 'vitest';
import { resolveNode } from '@sluice/bundle';
import { type NftState, type NftTableOptions, printNft, printNftTable, readNft, tableLine } from '@sluice/netfilter';
import { damagedLists, hasTable, NftReader } from '../../packages/applier/src/ports/nftables/observed.ts';
import { nftBundle } from '../../packages/bundle/src/virtual/nft.fixture.ts';
import { needKernel } from '../netns/privileges.ts';
import { nftOf, nftVersions } from './newer.ts';

/** The text of mode nftables and the real tool: it takes the table, lists it, and takes what it listed. */

const folder = mkdtempSync(join(tmpdir(), 'sluice-nft-'));
afterAll(() => rmSync(folder, { recursive: true, force: true }));
beforeEach(needKernel);

/** Runs a shell script in a network namespace of its own; `$1` is a file with the text. */
function inNamespace(
  script: string,
  text: string,
): { readonly stdout: string; readonly stderr: string; readonly exitCode?: number | undefined } {
  const file = join(folder, 'text.nft');
  writeFileSync(file, text);
  return execaSync('unshare', ['--net', 'sh', '-ec', script, 'sh', file], { reject: false });
}

function stateOf(node: string): NftState {
  const resolved = resolveNode(nftBundle(), node);
  if (!('version' in resolved)) throw new Error('not resolved');
  const state = readNft(resolved.nft ?? []);
  if ('problems' in state) throw new Error('not read');
  return state;
}

describe.each(nftVersions)('the %s nft', (version) => {
  const found = nftOf(version);
  beforeEach((context) => {
    if ('lack' in found) context.skip(found.lack);
  });
  const nft = 'path' in found ? found.path : '';

  test.each<[string, NftTableOptions['detector'], boolean, Partial<NftTableOptions>?]>([
    ['by address', 'address', false],
    ['by interface', { interface: 'cali*' }, false],
    ['by one interface, with all masqueraded', { interface: 'cbr0' }, true],
    ['by address, with resets and few clients', 'address', false, { tcpReset: true, affinityClients: 2048 }],
    ['by address, with node ports refused on loopback', 'address', false, { localhost: 'refused' }],
    ['by interface, with node ports on localhost', { interface: 'cali*' }, true, { localhost: 'served' }],
  ])(
    'takes the table that tells pods %s, and lists it as it takes it again',
    (_title, detector, masqueradeAll, more = {}) => {
      const list = `${nft} -n list table inet sluice`;
      const script = `${nft} -f "$1"; ${list} >"$1.1"; ${nft} flush ruleset; ${nft} -f "$1.1"; ${list} | cmp - "$1.1"; cat "$1.1"`;
      const { exitCode, stderr, stdout } = inNamespace(script, printNftTable({ detector, masqueradeAll, ...more }));
      expect([exitCode, stderr]).toEqual([0, '']);
      expect(stdout).toContain('chain masquerade-cluster6');
      const reader = new NftReader();
      reader.take(stdout);
      expect(hasTable(reader.done(), [tableLine({ detector, masqueradeAll, ...more })])).toBe(true);
    },
  );

  test.each(['node-a', 'node-b'])('takes every kind of element of %s in one transaction', (node) => {
    const state = stateOf(node);
    const { exitCode, stderr, stdout } = inNamespace(
      `${nft} -f "$1"; ${nft} -n list table inet sluice`,
      printNft(state),
    );
    expect([exitCode, stderr]).toEqual([0, '']);
    const reader = new NftReader();
    reader.take(stdout);
    expect([...damagedLists(reader.done())]).toEqual([]);
    for (const key of state.frontends.keys()) {
      const numbered = key.replace(' . tcp . ', ' . 6 . ').replace(' . udp . ', ' . 17 . ');
      expect(stdout.includes(numbered), `the kernel has ${key}`).toBe(true);
    }
  });

  test('refuses the whole text if one element is wrong', () => {
    const text = `${printNft(stateOf('node-a'))}add element inet sluice svc4 { 10.0.0.1 . 6 . 80 : goto n77 }\n`;
    const { stdout } = inNamespace(`${nft} -f "$1" 2>/dev/null || ${nft} list tables; echo end`, text);
    expect(stdout).toBe('end');
  });
});
