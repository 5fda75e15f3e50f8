import { execFileSync } from 'node:child_process';
import { lstatSync, readdirSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { printWaves, wavesFile } from '@sluice/bundle';
import { beforeEach, describe, expect, test } from 'vitest';
import { replaceFile } from '../../packages/renderer/src/emit/file.ts';
import { writeOpening } from '../../packages/delivery/src/emit/release.ts';
import type { FakeRegistry } from './fake.fixture.ts';
import { sluice } from '../../packages/sluice/src/in-process.fixture.ts';
import { registryScene } from './scene.fixture.ts';

/** Git or a carrier may put links in the place of files that no digest covers: none is read, and none is written through. */

const { at, start } = registryScene();
let registry: FakeRegistry;
beforeEach(async () => {
  writeFileSync(at('secret'), 'a secret\n');
  registry = await start();
});

const kinds: readonly [what: string, make: (path: string) => void, says: string][] = [
  ['a link', (path) => symlinkSync('../secret', path), 'not a regular file'],
  ['a link to nothing', (path) => symlinkSync('nowhere', path), 'not a regular file'],
  ['a link without end', (path) => symlinkSync('/dev/zero', path), 'not a regular file'],
  ['a pipe', (path) => void execFileSync('mkfifo', [path]), 'not a regular file'],
  ['a giant', (path) => writeFileSync(path, Buffer.alloc(16 * 1024 + 1)), 'larger than 16384 bytes'],
];

describe.each(['waves-open.yaml', 'waves-open.yaml.sig'])('in the place of %s', (name) => {
  test.each(kinds)('%s is neither packed nor pushed, nor part of a release', async (_what, make, says) => {
    make(at(`release/${name}`));
    const refused = { status: 2, stderr: expect.stringMatching(new RegExp(`${name} .*${says}.*RELEASE_INVALID`)) };
    expect(await sluice('pack', at('release'), '--all', '-o', at('packed'))).toMatchObject(refused);
    expect(await sluice('push', at('release'), `${registry.host}/shop:1`)).toMatchObject(refused);
    expect(await sluice('promote', at('release'), '--dry-run')).toMatchObject(refused);
    expect(registry.seen).toEqual([]);
    expect(readdirSync(at(''))).not.toContain('packed');
  });
});

describe('a link in the place of a file is not written through when', () => {
  const victim = (): string => readFileSync(at('secret'), 'utf8');

  test('waves are opened', () => {
    writeFileSync(at(`release/${wavesFile}`), printWaves([{ name: 'all', nodes: ['a'] }]));
    symlinkSync('../secret', at('release/waves-open.yaml'));
    symlinkSync('../secret', at('release/waves-open.yaml.sig'));
    writeOpening(at('release'), 'open: 1\n', 'signature\n');
    expect(victim()).toBe('a secret\n');
    expect(readFileSync(at('release/waves-open.yaml'), 'utf8')).toBe('open: 1\n');
    expect(lstatSync(at('release/waves-open.yaml')).isFile()).toBe(true);
    expect(readFileSync(at('release/waves-open.yaml.sig'), 'utf8')).toBe('signature\n');
  });

  test('a file is replaced', () => {
    rmSync(at('release/SHA256SUMS.sig'), { force: true });
    symlinkSync('../secret', at('release/SHA256SUMS.sig'));
    replaceFile(at('release/SHA256SUMS.sig'), Buffer.from('another\n'));
    expect(victim()).toBe('a secret\n');
    expect(readFileSync(at('release/SHA256SUMS.sig'), 'utf8')).toBe('another\n');
  });
});
