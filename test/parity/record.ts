import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { buildTestPrograms } from '../../tools/test-programs.ts';
import { minors } from './binaries.ts';
import { recordFolder, recordedFolder } from './recorded.ts';

/**
 * Writes `recorded/` again: `SLUICE_TIER=all SLUICE_SEED=1 node test/parity/record.ts`. It boots a kernel in user mode, in which each kube-proxy
 * runs in mode ipvs. The programs are built before by `./dev test --all test/vm/inside/observed.test.ts`.
 */

process.env['SLUICE_PROGRAMS'] ??= await buildTestPrograms(join(import.meta.dirname, '..', '..'));
const { bootUserMode } = await import('../vm/user-mode.ts');
const { runInGuest } = await import('../vm/suite.ts');

const inGuest = '/tmp/recorded';
await using guest = await bootUserMode();
const results = await runInGuest(guest, ['test/vm/inside/observed.test.ts'], 3_000_000, {
  [recordFolder]: inGuest,
  SLUICE_GUEST_STORE: 'legacy',
});
for (const { name, state, message } of results) console.log(`${state}: ${name}\n${message}`);
mkdirSync(recordedFolder, { recursive: true });
for (const name of ['objects.json', ...minors.map((minor) => `kube-proxy-${minor}.json`)]) {
  const content = await guest.get(`${inGuest}/${name}`).catch(() => undefined);
  if (content) writeFileSync(join(recordedFolder, name), content);
  else console.log(`there is no ${name}`);
}
