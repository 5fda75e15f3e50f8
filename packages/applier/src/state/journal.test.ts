import {
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { basename } from 'node:path';
import { emptyTable, tableNames } from '@sluice/netfilter';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { limits } from '../limits.ts';
import type { TransactionIntent } from '../ports/journal.ts';
import type { NodeState } from '../ports/node-state.ts';
import { StateError } from './state-error.ts';
import { DiskJournal } from './journal.ts';
import { slotBytes } from './slots.ts';

let directory: string;
beforeEach(() => {
  directory = mkdtempSync(`${tmpdir()}/sluiced-journal-`);
});
afterEach(() => rmSync(directory, { recursive: true, force: true }));

const open = (): DiskJournal => DiskJournal.open(directory, 'node-a', () => new Date(0));
const state = (rule: string): NodeState => ({
  families: {
    ipv4: {
      filter: emptyTable,
      nat: { chains: new Map([['KUBE-SERVICES', [rule]]]), jumps: ['-A OUTPUT -j KUBE-SERVICES'] },
    },
  },
  sysctls: new Map([['net.ipv4.ip_forward', 1]]),
  conntrackHashSize: 65536,
});
/** A state with its chains as they are printed, whatever holds them. */
const spelled = (one: NodeState | undefined): unknown => ({
  ...one,
  families: tableNames.map((table) => ({
    ...one?.families.ipv4?.[table],
    chains: [...(one?.families.ipv4?.[table].chains ?? [])],
  })),
});
const nothing: NodeState = { families: {}, sysctls: new Map() };
const [one, two] = [state('-A KUBE-SERVICES -j RETURN'), state('-A KUBE-SERVICES -j ACCEPT')];
const opening = (version: string, to: NodeState): TransactionIntent => ({
  changeKind: 'release',
  flip: 'switch',
  version,
  state: to,
  sysctls: new Map([['net.ipv4.ip_forward', 0]]),
  flows: {
    old: [],
    fresh: [{ family: 'ipv4', protocol: 'udp', address: '10.96.0.10', port: 53, endpoint: undefined }],
  },
});

/** A whole transaction that ends well. */
async function confirm(journal: DiskJournal, version: string, to: NodeState): Promise<void> {
  if (!journal.active) await journal.adopt(nothing);
  await journal.begin(opening(version, to));
  await journal.commit();
  await journal.finish();
}

test('an endpoint update whose programs were lost with the power leaves the generation before it', async () => {
  const journal = open();
  await journal.adopt(nothing);
  await journal.begin(opening('v1', one));
  await journal.commit();
  await journal.finish();
  const durable = new Set(readdirSync(`${directory}/store`));
  await journal.begin({ ...opening('v2', two), changeKind: 'endpoints' });
  // The next process reads them, although nothing waited for the disk.
  const other = open();
  expect(spelled((await other.generation(1, 1))?.state)).toEqual(spelled(two));
  for (const name of readdirSync(`${directory}/store`)) if (!durable.has(name)) rmSync(`${directory}/store/${name}`);
  const next = open();
  expect(next.open).toMatchObject({ to: { number: 1, revision: 1 } });
  expect(await next.generation(1, 1)).toBeUndefined();
  expect([next.halted, spelled(next.active?.state)]).toEqual([undefined, spelled(one)]);
  await next.abandon('the process ended', 'process');
  expect([open().open, spelled(open().active?.state)]).toEqual([undefined, spelled(one)]);
});

test('writes the words of 0.1.0, which an older sluiced reads after a downgrade', async () => {
  const journal = open();
  await confirm(journal, 'aaaa', one);
  const written = (): string => readFileSync(`${directory}/journal`, 'latin1');
  await journal.begin({ ...opening('bbbb', two), changeKind: 'endpoints' });
  expect(written()).toContain('"lane":"endpoints"');
  await journal.abandon('no room', 'bundle');
  expect(written()).toMatch(/"what":"rolled-back"[^}]*"lane":"endpoints"/);
  await journal.begin(opening('cccc', two));
  expect(written()).toContain('"lane":"release"');
  await journal.halt('the rollback failed');
  expect(written()).toContain('"held":"the rollback failed"');
  expect(written()).toContain('"what":"held"');
});

test('keeps the confirmed generation over a restart', async () => {
  await confirm(open(), 'aaaa', one);
  const again = open();
  expect(again.active).toEqual({ number: 1, revision: 0, version: 'aaaa', state: one });
  expect(again.open).toBeUndefined();
  expect(again.originals).toEqual(new Map([['net.ipv4.ip_forward', 0]]));
});

test('keeps an open change over a restart, with the generation before it active', async () => {
  const journal = open();
  await journal.adopt(nothing);
  await journal.begin(opening('aaaa', one));
  const again = open();
  expect(again.open).toMatchObject({
    phase: 'open',
    flip: 'switch',
    version: 'aaaa',
    from: { number: 0 },
    to: { number: 1 },
  });
  expect(again.active?.number).toBe(0);
  expect((await again.generation(1, 0))?.state).toEqual(one);
  expect(await again.openFlows()).toEqual(opening('aaaa', one).flows);
});

test('makes the new generation active with the commit record alone', async () => {
  const journal = open();
  await journal.adopt(nothing);
  await journal.begin(opening('aaaa', one));
  await journal.commit();
  const again = open();
  expect([again.active?.number, again.open?.phase]).toEqual([1, 'committed']);
  await again.finish();
  expect([open().active?.number, open().open]).toEqual([1, undefined]);
});

test('writes the native text of the active generation', async () => {
  await confirm(open(), 'aaaa', one);
  const file = (name: string): string => readFileSync(`${directory}/current/${name}`, 'utf8');
  expect(file('iptables.rules')).toBe(
    '*nat\n:KUBE-SERVICES - [0:0]\n-A KUBE-SERVICES -j RETURN\n-I OUTPUT 1 -j KUBE-SERVICES\nCOMMIT\n',
  );
  expect(file('sysctl.conf')).toBe('net.ipv4.ip_forward = 1\n');
});

test('finds the native text that a killed process was replacing', async () => {
  await confirm(open(), 'aaaa', one);
  renameSync(`${directory}/current`, `${directory}/current.old`);
  rmSync(`${directory}/journal`);
  expect(() => DiskJournal.look(directory, 'node-a', () => new Date(0))).toThrow('the store has programs');
  const journal = DiskJournal.open(directory, 'node-a', () => new Date(0), false);
  expect([...journal.storedGenerations()][0]).toMatchObject({ generation: { version: 'aaaa' }, wasActive: true });
  expect(readdirSync(directory)).toEqual(['current', 'store']);
});

test('quarantines a failed version at once, a crashing one after the third time', async () => {
  const journal = open();
  await journal.adopt(nothing);
  await journal.begin(opening('bad', one));
  await journal.abandon('health failed', 'bundle');
  expect(journal.quarantined('bad')).toBe('health failed');
  for (let times = 1; times <= limits.interruptedMax; times++) {
    expect(journal.quarantined('unlucky')).toBeUndefined();
    await journal.begin(opening('unlucky', one));
    await journal.abandon('the process ended', 'process');
  }
  expect(open().quarantined('unlucky')).toBe('the process ended');
});

test('resets the crash count when a version is accepted', async () => {
  const journal = open();
  await confirm(journal, 'aaaa', one);
  const update = (version: string): TransactionIntent => ({ ...opening(version, two), changeKind: 'endpoints' });
  for (let times = 1; times <= 2 * limits.interruptedMax; times++) {
    await journal.begin(update('unlucky'));
    await journal.abandon('the process ended', 'process');
    for (const version of ['unlucky', 'another']) {
      await journal.begin(update(version));
      await journal.commit();
      await journal.finish();
    }
  }
  expect(open().quarantined('unlucky')).toBeUndefined();
});

test('reads a long row of updates back, in a store of bounded size', async () => {
  const journal = open();
  const rules = (n: number): NodeState => state(`-A KUBE-SERVICES -m mark --mark ${n} -j RETURN`);
  await confirm(journal, 'aaaa', one);
  for (let n = 1; n <= 3 * limits.deltasMax; n++) {
    await journal.begin({ ...opening(`v${n}`, rules(n)), changeKind: 'endpoints' });
    await journal.commit();
    await journal.finish();
    expect(open().active).toMatchObject({ number: 1, revision: n, version: `v${n}` });
    expect(spelled(open().active?.state)).toEqual(spelled(rules(n)));
    await journal.tidy();
  }
  expect(readdirSync(`${directory}/store`).length).toBeLessThan(limits.deltasMax + limits.updatesPerSweep + 20);
});

test('removes old generations from the store, except the first and the newest', async () => {
  const journal = open();
  const rule = (i: number): NodeState => state(`-A KUBE-SERVICES -m mark --mark ${i} -j RETURN`);
  for (let i = 1; i <= limits.generationsKept + 5; i++) await confirm(journal, `v${i}`, rule(i));
  const kept = journal.record.kept.map(({ number }) => number);
  expect(kept).toEqual([0, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15]);
  for (const number of kept) expect(await open().generation(number)).toBeDefined();
  // Each has a manifest and the object with its chain; the empty filter tables share one of each.
  const objects = readdirSync(`${directory}/store`);
  const needed = new Set(kept.map((number) => number));
  expect(objects.length).toBeLessThanOrEqual(2 * needed.size + 2);
});

test.each([
  ['overwritten', 'x'.repeat(2 * slotBytes)],
  ['cut short', ''],
])('refuses a journal that was %s, and leaves it unchanged', async (_title, bytes) => {
  await confirm(open(), 'aaaa', one);
  writeFileSync(`${directory}/journal`, bytes);
  expect(open).toThrow('both slots');
  expect(readFileSync(`${directory}/journal`, 'utf8')).toBe(bytes);
});

test('reads the previous record after a torn write', async () => {
  const journal = open();
  await confirm(journal, 'aaaa', one);
  await journal.begin(opening('bbbb', two));
  const path = `${directory}/journal`;
  const whole = readFileSync(path);
  const newest = whole.subarray(0, slotBytes).includes('"version":"bbbb"') ? 0 : slotBytes;
  whole.fill(0, newest + 300, newest + slotBytes);
  writeFileSync(path, whole);
  const again = open();
  expect([again.active?.version, again.open]).toEqual(['aaaa', undefined]);
});

test('starts anew where the first record is torn', async () => {
  await open().adopt(nothing);
  const path = `${directory}/journal`;
  const whole = readFileSync(path);
  const end = whole.indexOf(0, slotBytes);
  expect(end - slotBytes).toBeGreaterThan(512);
  for (let at = slotBytes; at < end; at += 512) {
    writeFileSync(path, Buffer.from(whole).fill(0, at, at + 512));
    const journal = open();
    expect([journal.active, journal.halted]).toEqual([undefined, undefined]);
    await confirm(journal, 'aaaa', one);
    expect(open().active?.version).toBe('aaaa');
    rmSync(`${directory}/current`, { recursive: true });
  }
});

test('counts a journal without a record as lost where the node has had rules', async () => {
  await confirm(open(), 'aaaa', one);
  writeFileSync(`${directory}/journal`, Buffer.alloc(2 * slotBytes));
  expect(open).toThrow('has no record, but the node has had rules');
});

test('refuses the state directory of another node', async () => {
  await confirm(open(), 'aaaa', one);
  expect(() => DiskJournal.open(directory, 'node-b', () => new Date(0))).toThrow('belongs to node node-a');
});

test('removes partial files of a killed process', () => {
  open();
  writeFileSync(`${directory}/decision.json.tmp`, '');
  open();
  expect(readdirSync(directory)).not.toContain('decision.json.tmp');
});

test('creates, discards and writes nothing in a read-only look', async () => {
  rmSync(directory, { recursive: true });
  expect(DiskJournal.look(directory, 'node-a', () => new Date(0)).active).toBeUndefined();
  expect(existsSync(directory)).toBe(false);
  await confirm(open(), 'aaaa', one);
  writeFileSync(`${directory}/decision.json.tmp`, '');
  writeFileSync(`${directory}/store/0123.tmp`, '');
  const before = readdirSync(directory, { recursive: true });
  expect(DiskJournal.look(directory, 'node-a', () => new Date(0)).active?.version).toBe('aaaa');
  expect(readdirSync(directory, { recursive: true })).toEqual(before);
});

test('remembers the rule store with the first change, not before', async () => {
  const journal = open();
  await journal.pin('nft');
  expect(DiskJournal.open(directory, 'node-b', () => new Date(0)).record.backend).toBeUndefined();
  await journal.adopt(nothing);
  expect(() => DiskJournal.open(directory, 'node-b', () => new Date(0))).toThrow('belongs to node node-a');
  expect(open().record.backend).toBe('nft');
});

test('replaces a generation that is damaged on disk', async () => {
  const journal = open();
  await confirm(journal, 'aaaa', one);
  await confirm(journal, 'bbbb', two);
  for (const name of readdirSync(`${directory}/store`)) {
    const path = `${directory}/store/${name}`;
    const text = readFileSync(path, 'utf8');
    if (text.includes('-j ACCEPT')) writeFileSync(path, text.replace('ACCEPT', 'DROP'));
  }
  const again = open();
  expect([again.active, again.damaged?.number]).toEqual([undefined, 2]);
  expect(again.halted).toContain('generation 2');
  const older = await again.generation(1);
  expect(older?.version).toBe('aaaa');
  if (older) await again.fallBack(older, 'damaged');
  expect([open().active?.number, open().halted]).toEqual([1, undefined]);
});

/** Puts something else in the place of each object that holds some words. @returns what puts them back */
function replace(words: string, target: string): () => void {
  const paths = readdirSync(`${directory}/store`).map((name) => `${directory}/store/${name}`);
  const [found, aside] = [paths.filter((path) => readFileSync(path, 'utf8').includes(words)), `${directory}/aside`];
  mkdirSync(aside);
  for (const path of found) {
    renameSync(path, `${aside}/${basename(path)}`);
    symlinkSync(target, path);
  }
  return () => {
    for (const path of found) renameSync(`${aside}/${basename(path)}`, path);
  };
}
/** Nobody may read it, root neither. */
const forbidden = '/proc/sys/vm/drop_caches';
/** Its first page is nobody's: every read of it fails with EIO, as that of a bad sector. */
const badSector = '/proc/self/mem';

test('counts a generation that the disk cannot read as damaged', async () => {
  const journal = open();
  await confirm(journal, 'aaaa', one);
  await confirm(journal, 'bbbb', two);
  replace('-j ACCEPT', badSector);
  const again = open();
  expect([again.active, again.damaged?.number]).toEqual([undefined, 2]);
  expect((await again.generation(1))?.version).toBe('aaaa');
});

test('does not count a generation as damaged when this process is short of resources', async () => {
  await confirm(open(), 'aaaa', one);
  const before = readFileSync(`${directory}/journal`);
  const giveBack = replace('-j RETURN', forbidden);
  expect(open).toThrow(StateError);
  expect(open).toThrow('cannot be read: EACCES');
  giveBack();
  expect(readFileSync(`${directory}/journal`).equals(before)).toBe(true);
  expect([open().active?.version, open().halted]).toEqual(['aaaa', undefined]);
});

test('does not count a journal as lost or fresh when this process cannot read it', async () => {
  await confirm(open(), 'aaaa', one);
  renameSync(`${directory}/journal`, `${directory}/aside`);
  symlinkSync(forbidden, `${directory}/journal`);
  expect(open).toThrow(StateError);
  renameSync(`${directory}/aside`, `${directory}/journal`);
  expect(open().active?.version).toBe('aaaa');
});

test('keeps the objects of a generation that cannot be read now', async () => {
  const journal = open();
  await confirm(journal, 'aaaa', one);
  const giveBack = replace('"schema":2', forbidden);
  await confirm(journal, 'bbbb', two);
  giveBack();
  expect((await open().generation(1))?.state).toEqual(one);
  expect(open().active?.version).toBe('bbbb');
});

test('refuses another rule store than the one in use', async () => {
  const journal = open();
  await journal.pin('nft');
  await confirm(journal, 'aaaa', one);
  await expect(journal.pin('legacy')).rejects.toThrow("the node's rules are in the nft store");
});

test('replays a long row of updates with many chains', async () => {
  const journal = open();
  const chain = (n: number): string => `KUBE-SVC-${String(n).padStart(16, 'A')}`;
  const of = (step: number): NodeState => {
    const names = [step, step + 1, step >> 2, (step * 7) % 11].map(chain);
    const chains = new Map(names.map((name, at) => [name, [`-A ${name} -m mark --mark ${step % (at + 2)} -j RETURN`]]));
    return { ...nothing, families: { ipv4: { filter: emptyTable, nat: { chains, jumps: [] } } } };
  };
  await confirm(journal, 'aaaa', of(0));
  for (let step = 1; step <= 2 * limits.deltasMax + 3; step++) {
    await journal.begin({ ...opening('aaaa', of(step)), changeKind: 'endpoints' });
    await journal.commit();
    await journal.finish();
    const read = new Map(open().active?.state.families.ipv4?.nat.chains);
    expect(Object.fromEntries(read)).toEqual(Object.fromEntries(of(step).families.ipv4?.nat.chains ?? []));
  }
});

test('records endpoint updates as revisions, with one history entry per run', async () => {
  const journal = open();
  await confirm(journal, 'aaaa', one);
  for (const to of [two, one, two]) {
    await journal.begin({ ...opening('aaaa', to), changeKind: 'endpoints' });
    await journal.commit();
    await journal.finish();
  }
  expect(open().active).toMatchObject({ number: 1, revision: 3 });
  expect(spelled(open().active?.state)).toEqual(spelled(two));
  expect(journal.record.history.map(({ what }) => what)).toEqual(['first-run', 'confirmed', 'updated']);
});

/** Three releases, the first two of which hold nobody down. */
async function failThrice(journal: DiskJournal): Promise<void> {
  for (const version of ['bbbb', 'cccc', 'dddd']) {
    expect(journal.notBeforeMs).toBe(0);
    await journal.begin(opening(version, two));
    await journal.abandon('health failed', 'bundle');
  }
}

test('does not count a rolled-back endpoint update as a failed release', async () => {
  let nowMs = 0;
  const journal = DiskJournal.open(directory, 'node-a', () => new Date(nowMs));
  await confirm(journal, 'aaaa', one);
  await failThrice(journal);
  for (nowMs = 1_000; nowMs < 100_000; nowMs += 1_000) {
    await journal.begin({ ...opening('aaaa', two), changeKind: 'endpoints' });
    await journal.abandon('the kernel refused', 'bundle');
  }
  expect([journal.releasesSince(0), journal.notBeforeMs]).toEqual([4, limits.backOffMs]);
});

test('counts a blameless rollback as a release, without back-off', async () => {
  let nowMs = 0;
  const journal = DiskJournal.open(directory, 'node-a', () => new Date(nowMs));
  await confirm(journal, 'aaaa', one);
  await failThrice(journal);
  nowMs = limits.backOffMs;
  await journal.begin(opening('eeee', two));
  await journal.abandon('the process ended', 'process');
  expect([journal.releasesSince(0), journal.notBeforeMs]).toEqual([5, limits.backOffMs]);
});

test('ignores failures later than now after the clock was set back', async () => {
  let nowMs = Date.parse('2099-01-01T00:00:00Z');
  const journal = DiskJournal.open(directory, 'node-a', () => new Date(nowMs));
  await confirm(journal, 'aaaa', one);
  await failThrice(journal);
  expect(journal.notBeforeMs).toBe(nowMs + limits.backOffMs);
  nowMs = Date.parse('2026-12-01T12:00:00Z');
  expect([journal.record.failures, journal.notBeforeMs]).toEqual([3, 0]);
});
