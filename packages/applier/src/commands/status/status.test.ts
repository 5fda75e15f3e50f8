import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { execaSync } from 'execa';
import { expect, onTestFinished, test } from 'vitest';

const sluiced = join(import.meta.dirname, '../../../../../bin/sluiced');
const nobody = ['--reuid=65534', '--regid=65534', '--clear-groups'];

test.skipIf(process.getuid?.() !== 0).each(['status', 'history', 'confirm', 'rollback'])(
  'sluiced %s reports missing permissions instead of a partial answer (needs root)',
  (verb) => {
    const state = mkdtempSync(join(tmpdir(), 'sluiced-state-'));
    onTestFinished(() => rmSync(state, { recursive: true }));
    const { exitCode, stdout, stderr } = execaSync(
      'setpriv',
      [...nobody, sluiced, verb, '--node', 'node-a', '--state', state],
      { reject: false },
    );
    expect({ exitCode, stdout }).toEqual({ exitCode: 3, stdout: '' });
    expect(stderr).toMatch(/EACCES[^]*\[NODE_STATE_INVALID\]\n.*root/);
  },
  30_000,
);
