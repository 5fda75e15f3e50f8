import { appendFileSync, cpSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import { sluice } from '../../../../sluice/src/in-process.fixture.ts';
import { filesOf, releaseScratch, source } from './scratch.fixture.ts';

const { scratch, bundle, release, signers, lineOf, make, sign, verify } = releaseScratch();

describe('an endpoint update', () => {
  const update = () => sluice('release', bundle, '--endpoints', '--source', source, '-o', release);
  const edit = (n: number) => appendFileSync(join(bundle, 'cluster.yaml'), `# ${n}\n`);
  const node = (name: string): string => join(bundle, 'nodes', name);
  const makeInWaves = async (): Promise<void> => {
    const file = join(scratch, 'waves-of-update.yaml');
    const waves = 'waves: [{name: canary, nodes: [node-1]}, {name: others, nodes: rest}]\n';
    writeFileSync(file, `apiVersion: sluice.dev/v1alpha1\nkind: Waves\n${waves}`);
    expect(await make('--wave', file)).toMatchObject({ status: 0 });
  };

  test('has the serial of its release and the next revision, and keeps it without changes', async () => {
    expect(await update()).toMatchObject({ status: 2, stderr: expect.stringContaining('contains no release') });
    await make();
    for (const revision of [1, 2]) {
      edit(revision);
      expect(await update()).toMatchObject({
        stdout: '1\n',
        stderr: expect.stringContaining(`update ${revision} of release 1`),
      });
      expect(readFileSync(join(release, 'release.yaml'), 'utf8')).toContain(`serial: 1\nrevision: ${revision}\n`);
    }
    expect((await update()).stderr).toContain('update 2 of release 1');
    expect((await make()).stdout, 'the next release has no revision').toBe('2\n');
    expect(readFileSync(join(release, 'release.yaml'), 'utf8')).not.toContain('revision');
  });

  test('is valid with one signature of an endpoint key, which is valid for nothing else', async () => {
    writeFileSync(signers, lineOf('alice') + lineOf('ends', 'namespaces="sluice-endpoints"'));
    await make();
    expect(await sign('ends', '--endpoints')).toMatchObject({
      status: 2,
      stderr: expect.stringContaining('not an endpoint update'),
    });
    edit(1);
    await update();
    await sign('ends', '--endpoints');
    expect(await verify('--threshold', '1')).toMatchObject({
      status: 0,
      stdout: expect.stringMatching(/revision +1\n[^]*signed by +ends \(endpoints only\)/),
    });
    await sign('alice', '--as', 'alice');
    expect((await verify()).stdout).toMatch(/signed by +alice\n/);
    const sums = readFileSync(join(release, 'SHA256SUMS.sig'));
    edit(2);
    await make();
    writeFileSync(join(release, 'SHA256SUMS.sig'), sums);
    expect(await verify()).toMatchObject({ status: 2, stderr: expect.stringContaining('RELEASE_UNSIGNED') });
  });

  test('has the waves of its release, all closed', async () => {
    await makeInWaves();
    await sluice('promote', release);
    const waves = readFileSync(join(release, 'waves.yaml'), 'utf8');
    for (const revision of [1, 2]) {
      edit(revision);
      expect((await update()).stderr).toContain(`update ${revision} of release 1`);
      expect(readFileSync(join(release, 'waves.yaml'), 'utf8')).toBe(waves);
      expect(readFileSync(join(release, 'release.yaml'), 'utf8')).toMatch(/requires: \[.*waves\]/);
      expect(readdirSync(release)).not.toContain('waves-open.yaml');
    }
    expect((await update()).stderr).toContain('unchanged');
    await sign('alice');
    expect(await verify()).toMatchObject({ status: 0, stdout: expect.stringContaining('waves     0 of 2 open\n') });
  });

  test.each([
    ['a node that is not in a wave', () => cpSync(node('node-1'), node('node-3'), { recursive: true }), 'node node-3'],
    ['a wave with a deleted node', () => rmSync(node('node-2'), { recursive: true }), 'no node node-2'],
    ['missing waves', () => rmSync(join(release, 'waves.yaml')), 'waves.yaml is missing'],
    ['invalid waves', () => writeFileSync(join(release, 'waves.yaml'), 'waves: 7\n'), 'Cannot read'],
  ])('is refused with %s, and the directory is kept', async (_title, change, expected) => {
    await makeInWaves();
    change();
    const before = filesOf(release);
    const refused = await update();
    expect(refused).toMatchObject({ status: 2, stderr: expect.stringContaining('WAVES_INVALID') });
    expect(refused.stderr).toContain(expected);
    expect(filesOf(release)).toEqual(before);
  });

  test('does not accept a serial or waves', async () => {
    expect(
      (await sluice('release', bundle, '--endpoints', '--serial', '3', '--source', source, '-o', release)).status,
    ).toBe(2);
    expect((await sluice('release', bundle, '--source', source, '-o', release)).stderr).toContain(
      "'--serial <N|auto>' not specified",
    );
  });
});
