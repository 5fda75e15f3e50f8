import { execFileSync } from 'node:child_process';
import { existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeEach, expect, test } from 'vitest';

/**
 * The scripts of the Debian package, one by one, on a root that is a folder, with a systemctl that writes down what it was asked. What dpkg
 * makes of them is `package/deb.test.ts`.
 */

const root = mkdtempSync(join(tmpdir(), 'sluice-scripts-'));
const calls = join(root, 'calls');
const config = join(root, 'etc/sluice/sluiced.yaml');
afterAll(() => rmSync(root, { recursive: true, force: true }));

beforeEach(() => {
  rmSync(root, { recursive: true, force: true });
  for (const folder of ['bin', 'etc/sluice', 'run/systemd/system']) mkdirSync(join(root, folder), { recursive: true });
  writeFileSync(join(root, 'bin/systemctl'), `#!/bin/sh\necho "$*" >>${calls}\n`, { mode: 0o755 });
  writeFileSync(join(root, 'bin/sluiced'), '#!/bin/sh\n', { mode: 0o755 });
  writeFileSync(config, '');
});

/** What systemctl is asked when dpkg calls a script so. */
function called(script: string, ...args: readonly string[]): readonly string[] {
  const text = readFileSync(join(import.meta.dirname, '../packaging/debian', script), 'utf8');
  const moved = text.replaceAll(/(?<=\s)\/(?=(?:etc|run|var)\/)/g, `${root}/`);
  const env = { PATH: `${join(root, 'bin')}:/usr/bin:/bin` };
  execFileSync('/bin/sh', ['-c', moved, script, ...args], { env, stdio: 'pipe' });
  return existsSync(calls) ? readFileSync(calls, 'utf8').trim().split('\n') : [];
}

const stopped = ['disable --now sluiced.service sluiced-boot.service sluiced-rehearse.socket'];
const started = ['enable --now sluiced-boot.service sluiced.service'];

// The arguments are those of deb-prerm(5) and deb-postinst(5).
test.each([
  ['a removal stops it', 'prerm', ['remove'], stopped],
  ['a removal for another package stops it', 'prerm', ['remove', 'in-favour', 'other', '1.0'], stopped],
  ['an upgrade leaves it at work', 'prerm', ['upgrade', '9.9.9'], []],
  ['a deconfiguration leaves it at work', 'prerm', ['deconfigure', 'in-favour', 'other', '1.0'], []],
  ['a removal that is given up starts it again', 'postinst', ['abort-remove'], started],
  ['also one for another package', 'postinst', ['abort-remove', 'in-favour', 'other', '1.0'], started],
  [
    'a deconfiguration that is given up does nothing',
    'postinst',
    ['abort-deconfigure', 'in-favour', 'other', '1.0'],
    [],
  ],
  ['an upgrade that is given up does nothing', 'postinst', ['abort-upgrade', '9.9.9'], []],
  ['a first install starts it', 'postinst', ['configure', ''], ['daemon-reload', ...started]],
  [
    'an upgrade, and what follows a deconfiguration, starts it anew where it runs',
    'postinst',
    ['configure', '0.1.0'],
    ['daemon-reload', 'try-restart sluiced.service', 'is-active --quiet sluiced.service'],
  ],
] as const)('%s', (_title, script, args, expected) => {
  expect(called(script, ...args)).toEqual(expected);
});

test.each([['configure'], ['abort-remove']])('without a config %s starts nothing', (word) => {
  rmSync(config);
  expect(called('postinst', word).filter((call) => call !== 'daemon-reload')).toEqual([]);
});
