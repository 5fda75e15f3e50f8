// @module-tag test
import { existsSync } from 'node:fs';
import { basename } from 'node:path';
import { inTurn } from '@sluice/testing';
import { beforeEach, describe, expect, test } from 'vitest';
import { needBackend, needKernel } from '../netns/privileges.ts';
import { runbookNames, runbookOf, standInsOf } from './runbook.ts';
import { limitMs, surprises } from './stage.ts';

/** How often each runbook needs a command that only a real host has: a new one has to be a decision. */
const standInCalls: Readonly<Record<string, Readonly<Record<string, number>>>> = {
  'adopt-node.md': { kubectl: 2, systemctl: 3 },
  'air-gapped.md': {},
  'carry.md': {},
  'first-install.md': { 'apt-get': 1, scp: 2, systemctl: 1 },
  'from-kube-proxy.md': { kubectl: 3, systemctl: 2 },
  'halted.md': { 'apt-get': 1, journalctl: 1 },
  'key-rotation.md': { scp: 6, systemctl: 1 },
  'rollback.md': { scp: 1, systemctl: 1 },
};

/** Programs that some machines lack. */
const programs: Readonly<Record<string, readonly string[]>> = { 'carry.md': ['/usr/bin/rsync'] };

describe.each(runbookNames)('docs/runbooks/%s', (name) => {
  test('marks the commands of each block that need a real host', () => {
    expect(standInsOf(runbookOf(name))).toEqual(standInCalls[name]);
  });
});

describe('on a machine of its own', () => {
  beforeEach(needKernel);
  beforeEach((context) => needBackend(context, 'nft'));

  test.for(inTurn(runbookNames, 3))(
    'every block of docs/runbooks/%s does what it says',
    { timeout: limitMs + 10_000 },
    (name, context) => {
      const missing = (programs[name] ?? []).find((path) => !existsSync(path));
      if (missing !== undefined) return context.skip(`${missing} is missing: apt-get install ${basename(missing)}`);
      expect(surprises(runbookOf(name))).toEqual([]);
    },
  );
});
