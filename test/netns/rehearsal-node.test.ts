// @module-tag all
import { mkdtempSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { sampleBundle, writeBundle } from '../../packages/applier/src/testing/bundle.fixture.ts';
import { needBackend, needKernel } from './privileges.ts';
import { RehearsalUnit } from './rehearsal.ts';
import { SluicedNode, until } from './sluiced-node.ts';

/** The real sluiced with the unit that rehearses for it, with one that does not do its work, and without it. */

let node: SluicedNode;
let folder: string;
/** What sluiced starts behind: `folder` is its /run/sluice. */
let mount: string;
beforeEach(needKernel);
beforeEach(async (context) => {
  needBackend(context, 'nft');
  node = await SluicedNode.make();
  folder = mkdtempSync(`${tmpdir()}/slt-unit-`);
  mount = `mkdir /run/sluice && mount --bind ${folder} /run/sluice &&`;
  writeBundle(`${node.directory}/rendered`, sampleBundle({ families: ['ipv4', 'ipv6'] }));
});
afterEach(() => node.remove());

const apply = (): ReturnType<SluicedNode['sluiced']> =>
  node.sluicedAfter(mount, 'apply', `${node.directory}/rendered`, '--verbose');

test('a bundle is rehearsed by the unit where its socket is, and goes in', { timeout: 60_000 }, async () => {
  await using unit = await RehearsalUnit.listen(undefined, folder);
  node.writeConfig('nft');
  const said = await apply();
  expect(said).toMatchObject({ exitCode: 0, stdout: expect.stringContaining('confirmed') });
  expect(said.stdout + said.stderr).toMatch(/rehearsed.*unit/);
  expect(unit.said).toBe('the rules were loaded in a scratch namespace\n');
  expect(await node.rules('nft')).toContain('SLU-SVC-');
});

test('without a socket a namespace is made, as ever', { timeout: 60_000 }, async () => {
  node.writeConfig('nft');
  const said = await apply();
  expect(said).toMatchObject({ exitCode: 0 });
  expect(said.stdout + said.stderr).toMatch(/rehearsed.*namespace/);
});

test('what the kernel refuses is refused in the unit, and the node is as it was', { timeout: 60_000 }, async () => {
  await using unit = await RehearsalUnit.listen(undefined, folder);
  node.writeConfig('nft');
  // Masquerading is possible behind routing alone.
  const extraNat = ['-A KUBE-SERVICES -j MASQUERADE'];
  writeBundle(`${node.directory}/rendered`, sampleBundle({ families: ['ipv4', 'ipv6'], extraNat }));
  expect(await apply()).toMatchObject({ exitCode: 3, stderr: expect.stringContaining('NODE_REFUSES_RULES') });
  expect(unit.said).toContain('part ipv4 was refused');
  expect(await node.rules('nft')).not.toContain('SLU-');
});

test.each([
  ['the socket that the config asks for is not there', 'rehearse: unit\n', undefined, 'is not there'],
  ['its instances cannot start', '', ['false'], 'ended without an answer'],
  ['its instances say something else', '', ['sh', '-c', 'cat >/dev/null; echo hello >&0'], 'is no answer'],
  ['no namespace can be made', 'rehearse: namespace\n', undefined, 'Operation not permitted'],
] as const)(
  'where %s, nothing is touched and nothing is said against the bundle, which goes in later',
  { timeout: 60_000 },
  async (_title, more, place, why) => {
    node.writeConfig('nft', more);
    {
      await using bad = place && (await RehearsalUnit.listen(place, mkdtempSync(`${tmpdir()}/slt-unit-`)));
      const elsewhere = bad ? `mkdir /run/sluice && mount --bind ${bad.folder} /run/sluice &&` : mount;
      const powerless = more.includes('namespace')
        ? `${elsewhere} set -- setpriv --bounding-set=-sys_admin "$@" &&`
        : elsewhere;
      const said = await node.sluicedAfter(powerless, 'apply', `${node.directory}/rendered`);
      expect(said).toMatchObject({ exitCode: 3, stderr: expect.stringContaining('NODE_CANNOT_REHEARSE') });
      expect(said.stderr).toContain(why);
      expect(await node.rules('nft')).not.toContain('SLU-');
      expect((await node.sluiced('status')).stdout).not.toMatch(/quarantined +[^ n]/);
    }
    await using good = await RehearsalUnit.listen(undefined, folder);
    expect(await apply()).toMatchObject({ exitCode: 0, stdout: expect.stringContaining('confirmed') });
    expect(good.said).toBe(more.includes('namespace') ? '' : 'the rules were loaded in a scratch namespace\n');
  },
);

test('a daemon says that it cannot rehearse, waits, and goes on by itself when it can', {
  timeout: 60_000,
}, async () => {
  node.writeConfig('nft', 'rehearse: unit\n');
  node.start(mount);
  const alarms = async (): Promise<object | undefined> => {
    const said = await node.ask();
    return said === undefined ? undefined : (JSON.parse(said) as { alarms: object }).alarms;
  };
  await until('the alarm', async () => Object.keys((await alarms()) ?? {}).includes('NODE_CANNOT_REHEARSE'), 20_000);
  expect(await node.rules('nft')).not.toContain('SLU-');
  await using unit = await RehearsalUnit.listen(undefined, folder);
  await until('the release', async () => (await node.rules('nft')).includes('SLU-SVC-'), 20_000);
  await until('the end of the alarm', async () => Object.keys((await alarms()) ?? { x: 1 }).length === 0);
  expect(unit.said).toBe('the rules were loaded in a scratch namespace\n');
});
