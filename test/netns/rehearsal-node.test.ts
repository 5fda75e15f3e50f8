// @module-tag all
import { mkdtempSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { sampleBundle, writeBundle } from '../../packages/applier/src/testing/bundle.fixture.ts';
import { needBackend, needKernel } from './privileges.ts';
import { RehearsalUnit } from './rehearsal.ts';
import { SluicedNode, until } from './sluiced-node.ts';

/** The real sluiced with a rehearsal unit, with a broken one, and without one. */

let node: SluicedNode;
let folder: string;
/** Shell text in front of sluiced: `folder` becomes its /run/sluice. */
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

test('rehearses a bundle through the unit where its socket exists, and applies it', { timeout: 60_000 }, async () => {
  await using unit = await RehearsalUnit.listen(undefined, folder);
  node.writeConfig('nft');
  const result = await apply();
  expect(result).toMatchObject({ exitCode: 0, stdout: expect.stringContaining('confirmed') });
  expect(result.stdout + result.stderr).toMatch(/rehearsed.*unit/);
  expect(unit.log).toBe('the rules were loaded in a scratch namespace\n');
  expect(await node.rules('nft')).toContain('SLU-SVC-');
});

test('rehearses in a namespace where there is no socket', { timeout: 60_000 }, async () => {
  node.writeConfig('nft');
  const result = await apply();
  expect(result).toMatchObject({ exitCode: 0 });
  expect(result.stdout + result.stderr).toMatch(/rehearsed.*namespace/);
});

test('refuses rules that the kernel refuses in the unit, and leaves the node unchanged', {
  timeout: 60_000,
}, async () => {
  await using unit = await RehearsalUnit.listen(undefined, folder);
  node.writeConfig('nft');
  // MASQUERADE is valid after routing only.
  const extraNat = ['-A KUBE-SERVICES -j MASQUERADE'];
  writeBundle(`${node.directory}/rendered`, sampleBundle({ families: ['ipv4', 'ipv6'], extraNat }));
  expect(await apply()).toMatchObject({ exitCode: 3, stderr: expect.stringContaining('NODE_REFUSES_RULES') });
  expect(unit.log).toContain('part ipv4 was refused');
  expect(await node.rules('nft')).not.toContain('SLU-');
});

test.each([
  ['the configured socket is missing', 'rehearse: unit\n', undefined, 'does not exist'],
  ['its instances cannot start', '', ['false'], 'ended without an answer'],
  ['its instances send an invalid answer', '', ['sh', '-c', 'cat >/dev/null; echo hello >&0'], 'sent no valid answer'],
  ['no namespace can be created', 'rehearse: namespace\n', undefined, 'Operation not permitted'],
] as const)(
  'where %s, changes nothing and does not blame the bundle, which is applied later',
  { timeout: 60_000 },
  async (_title, more, place, why) => {
    node.writeConfig('nft', more);
    {
      await using bad = place && (await RehearsalUnit.listen(place, mkdtempSync(`${tmpdir()}/slt-unit-`)));
      const elsewhere = bad ? `mkdir /run/sluice && mount --bind ${bad.folder} /run/sluice &&` : mount;
      const powerless = more.includes('namespace')
        ? `${elsewhere} set -- setpriv --bounding-set=-sys_admin "$@" &&`
        : elsewhere;
      const result = await node.sluicedAfter(powerless, 'apply', `${node.directory}/rendered`);
      expect(result).toMatchObject({ exitCode: 3, stderr: expect.stringContaining('NODE_CANNOT_REHEARSE') });
      expect(result.stderr).toContain(why);
      expect(await node.rules('nft')).not.toContain('SLU-');
      expect((await node.sluiced('status')).stdout).not.toMatch(/quarantined +[^ n]/);
    }
    await using good = await RehearsalUnit.listen(undefined, folder);
    expect(await apply()).toMatchObject({ exitCode: 0, stdout: expect.stringContaining('confirmed') });
    expect(good.log).toBe(more.includes('namespace') ? '' : 'the rules were loaded in a scratch namespace\n');
  },
);

test('a daemon that cannot rehearse raises an alarm, waits, and continues when it can', {
  timeout: 60_000,
}, async () => {
  node.writeConfig('nft', 'rehearse: unit\n');
  node.start(mount);
  const alarms = async (): Promise<object | undefined> => {
    const result = await node.get();
    return result === undefined ? undefined : (JSON.parse(result) as { alarms: object }).alarms;
  };
  await until(
    'the alarm is raised',
    async () => Object.keys((await alarms()) ?? {}).includes('NODE_CANNOT_REHEARSE'),
    20_000,
  );
  expect(await node.rules('nft')).not.toContain('SLU-');
  await using unit = await RehearsalUnit.listen(undefined, folder);
  await until('the release', async () => (await node.rules('nft')).includes('SLU-SVC-'), 20_000);
  await until('the alarm is cleared', async () => Object.keys((await alarms()) ?? { x: 1 }).length === 0);
  expect(unit.log).toBe('the rules were loaded in a scratch namespace\n');
});
