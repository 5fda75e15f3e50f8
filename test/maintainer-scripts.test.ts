import { execFileSync } from 'node:child_process';
import { existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeEach, expect, test } from 'vitest';

/**
 * The scripts of the Debian package, one by one, on a folder as root, with a systemctl that records its arguments. `package/deb.test.ts`
 * covers dpkg's side.
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

/** The calls of systemctl when dpkg calls a script with these arguments. */
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
  ['removal stops the daemon', 'prerm', ['remove'], stopped],
  ['removal in favour of another package stops the daemon', 'prerm', ['remove', 'in-favour', 'other', '1.0'], stopped],
  ['an upgrade leaves it running', 'prerm', ['upgrade', '9.9.9'], []],
  ['a deconfiguration leaves it running', 'prerm', ['deconfigure', 'in-favour', 'other', '1.0'], []],
  ['an aborted removal starts it again', 'postinst', ['abort-remove'], started],
  [
    'an aborted removal in favour of another package starts it again',
    'postinst',
    ['abort-remove', 'in-favour', 'other', '1.0'],
    started,
  ],
  ['an aborted deconfiguration does nothing', 'postinst', ['abort-deconfigure', 'in-favour', 'other', '1.0'], []],
  ['an aborted upgrade does nothing', 'postinst', ['abort-upgrade', '9.9.9'], []],
  ['a first installation starts it', 'postinst', ['configure', ''], ['daemon-reload', ...started]],
  [
    'an upgrade, or a configuration after a deconfiguration, restarts it if it runs',
    'postinst',
    ['configure', '0.1.0'],
    ['daemon-reload', 'try-restart sluiced.service', 'is-active --quiet sluiced.service'],
  ],
] as const)('%s', (_title, script, args, expected) => {
  expect(called(script, ...args)).toEqual(expected);
});

test.each([['configure'], ['abort-remove']])('%s starts nothing without a config', (word) => {
  rmSync(config);
  expect(called('postinst', word).filter((call) => call !== 'daemon-reload')).toEqual([]);
});
