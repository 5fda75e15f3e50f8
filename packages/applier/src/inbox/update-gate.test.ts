import { readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileDigest } from '@sluice/bundle';
import { afterAll, beforeEach, describe, expect, test } from 'vitest';
import { sampleBundle } from '../testing/bundle.fixture.ts';
import { GateScene, type Made, noon } from '../testing/gate.fixture.ts';

const { acceptFive, allow, at, end, lineOf, look, publish, reset, said, signatureOf, state } = new GateScene();
beforeEach(reset);
afterAll(end);

const other = sampleBundle({ services: { 'shop/web': [7] } });

describe('an update of endpoints', () => {
  beforeEach(async () => {
    allow(lineOf('alice'), lineOf('bob'), lineOf('ends', 'namespaces="sluice-endpoints"'));
    await acceptFive();
  });
  const update = (revision: number, more: Made = {}): void =>
    publish({ serial: 5, revision, by: ['ends'], files: other, ...more });

  test('needs one key with that role, whatever the threshold for releases, and stays what it is over restarts', async () => {
    update(1);
    expect(await said({ threshold: 2 })).toBe('serial 5.1 by ends, endpoints only');
    expect(await said({ threshold: 2 })).toBe('serial 5.1 by ends, endpoints only');
    update(2);
    expect(await said()).toBe('serial 5.2 by ends, endpoints only');
    allow(lineOf('alice'), lineOf('bob'));
    expect(await said(), 'the key was withdrawn').toBe('serial 5.2 by ends, endpoints only RELEASE_SIGNERS_CHANGED');
  });

  test('signed by release signers as well is a release, also when they sign later', async () => {
    update(1, { by: ['ends', 'alice'] });
    expect(await said()).toBe('serial 5.1 by alice');
    update(2);
    expect(await said()).toBe('serial 5.2 by ends, endpoints only');
    writeFileSync(at('SHA256SUMS.alice.sig'), signatureOf('alice', readFileSync(at('SHA256SUMS'), 'utf8')));
    expect(await said()).toBe('serial 5.2 by alice');
    rmSync(at('SHA256SUMS.alice.sig'));
    expect(await said(), 'what was accepted stays so').toBe('serial 5.2 by alice RELEASE_SIGNERS_CHANGED');
    publish({ serial: 6 });
    expect(await said()).toBe('serial 6 by alice');
  });

  test.each([
    [
      'a release',
      () => publish({ serial: 6, by: ['ends'] }),
      'RELEASE_ENDPOINTS_ONLY .*release 6 is not an endpoint update',
    ],
    ['an update of a release without another signature', () => update(1, { serial: 6 }), 'RELEASE_ENDPOINTS_ONLY .*6'],
    ['the release again, with other content', () => publish({ by: ['ends'], files: other }), 'RELEASE_ENDPOINTS_ONLY'],
    ['an update of an older release', () => update(9, { serial: 4 }), 'RELEASE_SERIAL .*serial 4, revision 9 is older'],
    ['an older update', () => update(2), 'RELEASE_SERIAL .*serial 5, revision 2 is older than 5, revision 3'],
    ['two updates with one revision', () => update(3, { files: sampleBundle() }), 'RELEASE_EQUIVOCATION'],
    ['a revision far ahead', () => update(2_000_000), 'RELEASE_SERIAL .*more than 1000000 revisions ahead'],
    [
      'a signature for releases by such a key',
      () => {
        update(4, { by: [] });
        const sums = readFileSync(at('SHA256SUMS'), 'utf8');
        writeFileSync(at('SHA256SUMS.sig'), signatureOf('ends', sums, 'sluice-release'));
      },
      'RELEASE_UNSIGNED .*not allowed for namespace sluice-release',
    ],
    [
      'a signature for endpoints by a key of releases alone',
      () => {
        update(4, { by: [] });
        const sums = readFileSync(at('SHA256SUMS'), 'utf8');
        writeFileSync(at('SHA256SUMS.sig'), signatureOf('alice', sums, 'sluice-endpoints'));
      },
      'RELEASE_UNSIGNED',
    ],
  ])('by its key alone, %s, is refused, and the next good one is accepted', async (_title, attack, expected) => {
    update(3);
    await look();
    attack();
    expect(await said()).toMatch(new RegExp(`^refused ${expected}`));
    update(4);
    expect(await said()).toBe('serial 5.4 by ends, endpoints only');
  });

  test('uses no serial: the release that it updates is accepted before and after it, until a newer one is', async () => {
    update(1, { serial: 6 });
    expect(await said()).toContain('RELEASE_ENDPOINTS_ONLY');
    publish({ serial: 6 });
    expect(await said()).toBe('serial 6 by alice');
    update(1, { serial: 6 });
    expect(await said()).toBe('serial 6.1 by ends, endpoints only');
    publish({ serial: 6 });
    expect(await said(), 'it waits here, and comes back').toBe('serial 6 by alice');
    expect(await said({}, noon, false)).toBe('serial 6 by alice');
    publish({ serial: 6, revision: 1 });
    expect(await said(), 'with other content than the update that was signed for endpoints').toBe(
      'serial 6.1 by alice',
    );
    publish({ serial: 6 });
    expect(await said()).toMatch(/^refused RELEASE_SERIAL .*older than 6, revision 1/);
    update(1, { serial: 6 });
    expect(await said()).toMatch(/^refused RELEASE_EQUIVOCATION/);
    publish({ serial: 5 });
    expect(await said()).toMatch(/^refused RELEASE_SERIAL/);
  });

  test('is newer than every update before it, also when a release came in between', async () => {
    update(7);
    await look();
    publish({ serial: 5, revision: 3 });
    expect(await said()).toBe('serial 5.3 by alice');
    for (const revision of [2, 3, 4, 6]) {
      update(revision, { files: sampleBundle({ services: { 'shop/web': [8] } }) });
      expect(await said()).toMatch(/^refused RELEASE_SERIAL .*older than 5, revision 7/);
    }
    update(7);
    expect(await said()).toBe('serial 5.7 by ends, endpoints only');
    publish({ serial: 5, revision: 2 });
    expect(await said(), 'releases count by what signers of releases signed').toMatch(/older than 5, revision 3/);
    publish({ serial: 5, revision: 9 });
    expect(await said()).toBe('serial 5.9 by alice');
    update(8);
    expect(await said()).toMatch(/^refused RELEASE_SERIAL .*older than 5, revision 9/);
    publish({ serial: 6 });
    await look();
    update(10);
    expect(await said()).toMatch(/^refused RELEASE_SERIAL .*older than 6/);
  });

  test('that an older version recorded as the release keeps out older ones, whatever their signatures', async () => {
    update(2);
    const digest = fileDigest(readFileSync(at('SHA256SUMS'), 'utf8'));
    const record = {
      schema: 1,
      cluster: 'test',
      serial: 5,
      revision: 2,
      digest,
      signers: ['ends'],
      onlyEndpoints: true,
    };
    rmSync(join(state, 'release.json.copy'), { force: true });
    writeFileSync(join(state, 'release.json'), JSON.stringify(record));
    expect(await said()).toBe('serial 5.2 by ends, endpoints only');
    update(3);
    expect(await said()).toBe('serial 5.3 by ends, endpoints only');
    publish({ serial: 5, revision: 1 });
    expect(await said()).toMatch(/^refused RELEASE_SERIAL .*older than 5, revision 2/);
    publish({ serial: 6 });
    expect(await said()).toBe('serial 6 by alice');
  });

  test('on a node that has accepted nothing yet is refused', async () => {
    rmSync(state, { recursive: true });
    update(1);
    expect(await said()).toContain('RELEASE_ENDPOINTS_ONLY');
  });
});
