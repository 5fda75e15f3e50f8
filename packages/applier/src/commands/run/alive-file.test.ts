import { execFileSync } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir, uptime } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, test, vi } from 'vitest';
import { parseAllDocuments } from 'yaml';
import { limits } from '../../limits.ts';
import { startAliveFile } from './run.ts';

let directory: string;
beforeEach(() => {
  directory = mkdtempSync(join(tmpdir(), 'sluiced-alive-'));
  vi.useFakeTimers({ toFake: ['setInterval', 'clearInterval'] });
});
afterEach(() => {
  vi.useRealTimers();
  rmSync(directory, { recursive: true });
});

/** The probe of the pod, with another path and another time of the machine. */
function probe(path: string, nowSeconds: number): boolean {
  const text = readFileSync(join(import.meta.dirname, '../../../../../deploy/sluiced.yaml'), 'utf8');
  const daemonSet = parseAllDocuments(text)
    .map((document) => document.toJS() as { kind: string; spec: Pod })
    .find(({ kind }) => kind === 'DaemonSet');
  const script = daemonSet?.spec.template.spec.containers[0]?.livenessProbe.exec.command[2] ?? '';
  expect(script).toContain('/run/sluice/alive');
  try {
    const shell = script.replace('/run/sluice/alive', path).replace('</proc/uptime', `<${directory}/uptime`);
    execFileSync('/bin/sh', ['-c', `echo '${nowSeconds}.25 9.00' >${directory}/uptime; ${shell}`], { stdio: 'ignore' });
    return true;
  } catch {
    return false;
  }
}

interface Pod {
  readonly template: {
    readonly spec: {
      readonly containers: readonly {
        readonly livenessProbe: { readonly exec: { readonly command: readonly string[] } };
      }[];
    };
  };
}

test('the probe passes as long as the main loop makes progress, and a minute longer', () => {
  const path = join(directory, 'alive');
  let isAlive = true;
  const stop = startAliveFile(path, () => isAlive, { warn: () => undefined });
  const at = Number(readFileSync(path, 'utf8'));
  expect(Math.abs(at - uptime())).toBeLessThan(2);
  expect([probe(path, at), probe(path, at + 59), probe(path, at + 60)]).toEqual([true, true, false]);
  expect(probe(join(directory, 'missing'), at)).toBe(false);
  isAlive = false;
  rmSync(path);
  vi.advanceTimersByTime(3 * limits.aliveMs);
  expect(probe(path, at)).toBe(false);
  isAlive = true;
  vi.advanceTimersByTime(limits.aliveMs);
  expect(probe(path, at)).toBe(true);
  stop();
});

test('a path that cannot be written is logged once, and without one nothing is written', () => {
  const logged: unknown[] = [];
  const stop = startAliveFile(join(directory, 'none/alive'), () => true, { warn: (what) => void logged.push(what) });
  vi.advanceTimersByTime(5 * limits.aliveMs);
  stop();
  startAliveFile(undefined, () => true, { warn: (what) => void logged.push(what) })();
  expect(logged).toHaveLength(1);
});
