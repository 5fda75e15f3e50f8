import { execFileSync } from 'node:child_process';
import { existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
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
  writeFileSync(join(root, 'bin/systemd-sysusers'), '#!/bin/sh\n', { mode: 0o755 });
  writeFileSync(join(root, 'bin/sluiced'), '#!/bin/sh\n', { mode: 0o755 });
  writeFileSync(config, '');
});

let output = '';

/** The calls of systemctl when dpkg calls a script with these arguments. */
function called(script: string, ...args: readonly string[]): readonly string[] {
  const text = readFileSync(join(import.meta.dirname, '../packaging/debian', script), 'utf8');
  const moved = text.replaceAll(/(?<=\s)\/(?=(?:etc|run|var)\/)/g, `${root}/`);
  const env = { PATH: `${join(root, 'bin')}:/usr/bin:/bin` };
  output = execFileSync('/bin/sh', ['-c', `{ ${moved}\n} 2>&1`, script, ...args], { env, encoding: 'utf8' });
  return existsSync(calls) ? readFileSync(calls, 'utf8').trim().split('\n') : [];
}

const stopped = ['disable --now sluiced-fetch.service sluiced.service sluiced-boot.service sluiced-rehearse.socket'];
const started = ['enable --now sluiced-boot.service sluiced.service sluiced-fetch.service'];

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
    [
      'daemon-reload',
      'try-restart sluiced-fetch.service',
      'try-restart sluiced.service',
      'is-active --quiet sluiced.service',
    ],
  ],
] as const)('%s', (_title, script, args, expected) => {
  expect(called(script, ...args)).toEqual(expected);
});

test.each([['configure'], ['abort-remove']])('%s starts nothing without a config', (word) => {
  rmSync(config);
  expect(called('postinst', word).filter((call) => call !== 'daemon-reload')).toEqual([]);
});

/** A file below the root. */
function put(path: string, text = ''): string {
  mkdirSync(dirname(join(root, path)), { recursive: true });
  writeFileSync(join(root, path), text);
  return join(root, path);
}

/** What `sluiced adopt` leaves on a node whose kube-proxy is a unit, a static pod or a DaemonSet. */
const adoption = (kind: string): string =>
  put('var/lib/sluice/journal', `{"adoption":{"goal":"sluice","hold":{"kind":"${kind}"},"isStored":true}}`);
const folder = 'etc/systemd/system/kube-proxy.service.d';

test('removal of a node that was moved from kube-proxy says so and how to undo it, and keeps kube-proxy away', () => {
  adoption('unit');
  const held = put(`${folder}/sluiced-adopt.conf`);
  expect(called('prerm', 'remove')).toEqual(stopped);
  expect(output).toContain('sluiced adopt --undo');
  called('postrm', 'remove');
  expect(existsSync(held)).toBe(true);
});

test('removal of another node says nothing of kube-proxy', () => {
  put('var/lib/sluice/journal', '{"schema":2}');
  called('prerm', 'remove');
  expect(output).not.toContain('kube-proxy');
});

test('a purge lets a unit start again, before systemd reads the units', () => {
  adoption('unit');
  put(`${folder}/sluiced-adopt.conf`);
  expect(called('postrm', 'purge')).toEqual(['daemon-reload']);
  expect(output).toContain('kube-proxy.service may start again');
  for (const gone of [folder, 'var/lib/sluice', 'etc/sluice']) expect(existsSync(join(root, gone))).toBe(false);
});

test('a purge keeps other drop-ins of the unit', () => {
  put(`${folder}/sluiced-adopt.conf`);
  const other = put(`${folder}/override.conf`);
  called('postrm', 'purge');
  expect(existsSync(other)).toBe(true);
  expect(existsSync(join(root, folder, 'sluiced-adopt.conf'))).toBe(false);
});

test.each(['etc/kubernetes/manifests', 'var/lib/rancher/rke2/agent/pod-manifests'])(
  'a purge gives the manifest in %s back to the kubelet, unless it was written again',
  (manifests) => {
    for (const isNew of [false, true]) {
      const held = put(`${manifests}/.sluiced-adopt.kube-proxy.yaml`, 'held');
      const manifest = join(root, manifests, 'kube-proxy.yaml');
      rmSync(manifest, { force: true });
      if (isNew) put(`${manifests}/kube-proxy.yaml`, 'new');
      called('postrm', 'purge');
      expect(readFileSync(manifest, 'utf8')).toBe(isNew ? 'new' : 'held');
      expect(existsSync(held)).toBe(false);
    }
  },
);

test('a purge of a node that was moved from a DaemonSet names the label', () => {
  adoption('operator');
  called('postrm', 'purge');
  expect(output).toContain('sluice.dev/rules-');
});
