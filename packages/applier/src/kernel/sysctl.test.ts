import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, test, vi } from 'vitest';
import { procTunables } from './sysctl.ts';

let folder: string;
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'sluice-sysctl-'));
  vi.stubEnv('SLUICED_PROC_SYS_NET', folder);
});
afterEach(() => {
  vi.unstubAllEnvs();
  rmSync(folder, { recursive: true });
});

test('where the variable names a volume of /proc/sys/net, sysctls are read and written there', () => {
  const file = join(folder, 'netfilter/nf_conntrack_tcp_timeout_close_wait');
  mkdirSync(join(folder, 'netfilter'));
  writeFileSync(file, '60\n');
  const key = 'net.netfilter.nf_conntrack_tcp_timeout_close_wait';
  expect([procTunables.writable(key), procTunables.read(key)]).toEqual([true, 60]);
  procTunables.write(key, 3600);
  expect(procTunables.read(key)).toBe(3600);
  expect(readFileSync(file, 'utf8')).toBe('3600\n');
});

test('a sysctl that the volume lacks has no value and is not writable', () => {
  expect([procTunables.writable('net.ipv4.ip_forward'), procTunables.read('net.ipv4.ip_forward')]).toEqual([
    false,
    undefined,
  ]);
});
