import { execaSync } from 'execa';
import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';

const folder = join(import.meta.dirname, '../packages/applier/systemd');
const units = ['sluiced.service', 'sluiced-boot.service'];
const analyze = '/usr/bin/systemd-analyze';
const whyNot = existsSync(analyze) ? '' : `${analyze} is not here: apt-get install systemd`;

describe.each(units)('%s', (unit) => {
  const text = readFileSync(join(folder, unit), 'utf8');

  test('is exposed at most 2.1 as root with both rule stores', (context) => {
    if (whyNot !== '') return context.skip(whyNot);
    const run = execaSync(analyze, ['security', '--offline=true', '--no-pager', '--threshold=21', join(folder, unit)], {
      reject: false,
    });
    expect(run.stdout).toContain('Overall exposure level');
    expect(run.exitCode).toBe(0);
  });

  test('is what systemd understands', (context) => {
    if (whyNot !== '') return context.skip(whyNot);
    const directory = mkdtempSync(join(tmpdir(), 'sluice-unit-'));
    try {
      // The program is not installed on a machine that builds it.
      writeFileSync(join(directory, unit), text.replaceAll(/^ExecStart=\S+/gm, 'ExecStart=/bin/true'));
      const { exitCode, stderr } = execaSync(analyze, ['verify', '--man=no', join(directory, unit)], { reject: false });
      const ours = stderr.split('\n').filter((line) => line.includes(unit));
      expect({ exitCode, ours }).toEqual({ exitCode: 0, ours: [] });
    } finally {
      rmSync(directory, { recursive: true, force: true });
    }
  });

  test.each([
    ['tools end with the unit', /^KillMode=control-group$/m],
    ['no module is loaded by it', /^ProtectKernelModules=yes$/m],
    ['network sysctls can be written', /^ReadWritePaths=.*-\/proc\/sys\/net/m],
    ['Node starts although it asks for pkey_alloc', /^SystemCallErrorNumber=EPERM$/m],
    ['the kubelet comes after it', /^Before=.*\bkubelet\.service\b/m],
  ])('%s', (_title, line) => {
    expect(text).toMatch(line);
  });
});

test.each(['netfilter-persistent', 'iptables', 'nftables', 'ufw', 'firewalld'])(
  'rules are loaded at boot after %s, which flushes tables',
  (name) => {
    expect(readFileSync(join(folder, 'sluiced-boot.service'), 'utf8')).toMatch(
      new RegExp(`^After=.*\\b${name}\\.service`, 'm'),
    );
  },
);
