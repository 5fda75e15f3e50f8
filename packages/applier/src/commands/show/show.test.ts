import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { execaSync } from 'execa';
import { expect, onTestFinished, test } from 'vitest';
import { show } from './show.ts';

const sluiced = join(import.meta.dirname, '../../../../../bin/sluiced');
const nobody = ['--reuid=65534', '--regid=65534', '--clear-groups'];

test.skipIf(process.getuid?.() !== 0)(
  'says that only root may read the rules of the kernel (needs root)',
  () => {
    const state = mkdtempSync(join(tmpdir(), 'sluiced-state-'));
    onTestFinished(() => rmSync(state, { recursive: true }));
    const asked = [sluiced, 'show', 'shop/web', '--node', 'node-a', '--state', state];
    const { exitCode, stdout, stderr } = execaSync('setpriv', [...nobody, ...asked], { reject: false });
    expect({ exitCode, stdout }).toEqual({ exitCode: 3, stdout: '' });
    expect(stderr).toMatch(/only root can \[NODE_NOT_ROOT\]\n.*sudo.*sluice show/);
  },
  30_000,
);

test.each(['web', 'shop/web:http', 'KUBE-SVC-67NZLRHBNDSAWJRO', '../../etc/passwd', ''])(
  '%j names no Service',
  async (text) => {
    await expect(show(text, { node: 'node-a' }, { out() {}, err() {} })).rejects.toMatchObject({
      exitCode: 2,
      problems: [{ code: 'INPUT_UNREADABLE' }],
    });
  },
);
