import { existsSync, readdirSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { emptyTable } from '@sluice/netfilter';
import { expect, test } from 'vitest';
import { limits, paces } from '../limits.ts';
import type { Generation, TransactionIntent } from '../ports/journal.ts';
import type { NodeState } from '../ports/node-state.ts';
import { DiskJournal } from './journal.ts';
import { CurrentText } from './text.ts';
import { confirm, here, nothing, one, open, opening, spelled, state, two, inOwnDirectory } from './journal.fixture.ts';

inOwnDirectory();

test('an endpoint update whose programs were lost with the power leaves the generation before it', async () => {
  const journal = open();
  await journal.adopt(nothing);
  await journal.begin(opening('v1', one));
  await journal.commit();
  await journal.finish();
  const durable = new Set(readdirSync(`${here()}/store`));
  await journal.begin({ ...opening('v2', two), changeKind: 'endpoints' });
  // The next process reads them, although nothing waited for the disk.
  const other = open();
  expect(spelled((await other.generation(1, 1))?.state)).toEqual(spelled(two));
  for (const name of readdirSync(`${here()}/store`)) if (!durable.has(name)) rmSync(`${here()}/store/${name}`);
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
  const written = (): string => readFileSync(`${here()}/journal`, 'latin1');
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
  const file = (name: string): string => readFileSync(`${here()}/current/${name}`, 'utf8');
  expect(file('iptables.rules')).toBe(
    '*nat\n:KUBE-SERVICES - [0:0]\n-A KUBE-SERVICES -j RETURN\n-I OUTPUT 1 -j KUBE-SERVICES\nCOMMIT\n',
  );
  expect(file('sysctl.conf')).toBe('net.ipv4.ip_forward = 1\n');
});

test('names each release at once, and writes its text after a pause', async () => {
  let nowMs = 0;
  const journal = DiskJournal.open(here(), 'node-a', () => new Date(nowMs));
  const file = (name: string): string => readFileSync(`${here()}/current/${name}`, 'utf8');
  await confirm(journal, 'aaaa', one);
  const text = file('iptables.rules');
  nowMs += 1;
  await confirm(journal, 'bbbb', two);
  await journal.tidy();
  expect([file('iptables.rules'), file('generation.json')]).toEqual([text, expect.stringContaining('"bbbb"')]);
  expect([...journal.storedGenerations()][0]).toMatchObject({ generation: { version: 'bbbb' }, wasActive: true });
  nowMs += paces.nativeText.mostMs;
  await journal.tidy();
  expect(file('iptables.rules')).not.toBe(text);
  nowMs += paces.nativeText.mostMs;
  await confirm(journal, 'aaaa', one);
  expect(file('iptables.rules')).toBe(text);
});

test('after a rollback the text is that of the earlier generation at once, which itself was only named before', () => {
  const text = new CurrentText(`${here()}/current`, () => 0);
  const rules = (): string => readFileSync(`${here()}/current/iptables.rules`, 'utf8');
  const generation = (number: number, program: NodeState): Generation => ({
    number,
    revision: 0,
    version: `v${number}`,
    state: program,
  });
  text.activate(generation(1, one), '');
  const first = rules();
  text.activate(generation(2, two), '');
  text.activate(generation(3, one), '');
  expect(rules()).toBe(first);
  text.activate(generation(2, two), '');
  expect(rules()).not.toBe(first);
});

test('finds the native text that a killed process was replacing', async () => {
  await confirm(open(), 'aaaa', one);
  renameSync(`${here()}/current`, `${here()}/current.old`);
  rmSync(`${here()}/journal`);
  expect(() => DiskJournal.look(here(), 'node-a', () => new Date(0))).toThrow('the store has programs');
  const journal = DiskJournal.open(here(), 'node-a', () => new Date(0), false);
  expect([...journal.storedGenerations()][0]).toMatchObject({ generation: { version: 'aaaa' }, wasActive: true });
  expect(readdirSync(here())).toEqual(['copies', 'current', 'store']);
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
  expect(readdirSync(`${here()}/store`).length).toBeLessThan(limits.deltasMax + limits.updatesPerSweep + 20);
});

test('removes old generations from the store, except the first and the newest', async () => {
  const journal = open();
  const rule = (i: number): NodeState => state(`-A KUBE-SERVICES -m mark --mark ${i} -j RETURN`);
  for (let i = 1; i <= limits.generationsKept + 5; i++) await confirm(journal, `v${i}`, rule(i));
  const kept = journal.record.kept.map(({ number }) => number);
  expect(kept).toEqual([0, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15]);
  for (const number of kept) expect(await open().generation(number)).toBeDefined();
  // Each has a manifest and the object with its chain; the empty filter tables share one of each.
  const objects = readdirSync(`${here()}/store`);
  const needed = new Set(kept.map((number) => number));
  expect(objects.length).toBeLessThanOrEqual(2 * needed.size + 2);
});

test('refuses the state directory of another node', async () => {
  await confirm(open(), 'aaaa', one);
  expect(() => DiskJournal.open(here(), 'node-b', () => new Date(0))).toThrow('belongs to node node-a');
});

test('removes partial files of a killed process', () => {
  open();
  writeFileSync(`${here()}/decision.json.tmp`, '');
  open();
  expect(readdirSync(here())).not.toContain('decision.json.tmp');
});

test('creates, discards and writes nothing in a read-only look', async () => {
  rmSync(here(), { recursive: true });
  expect(DiskJournal.look(here(), 'node-a', () => new Date(0)).active).toBeUndefined();
  expect(existsSync(here())).toBe(false);
  await confirm(open(), 'aaaa', one);
  writeFileSync(`${here()}/decision.json.tmp`, '');
  writeFileSync(`${here()}/store/0123.tmp`, '');
  const before = readdirSync(here(), { recursive: true });
  expect(DiskJournal.look(here(), 'node-a', () => new Date(0)).active?.version).toBe('aaaa');
  expect(readdirSync(here(), { recursive: true })).toEqual(before);
});

test('remembers the rule store with the first change, not before', async () => {
  const journal = open();
  await journal.pin('nft');
  expect(DiskJournal.open(here(), 'node-b', () => new Date(0)).record.backend).toBeUndefined();
  await journal.adopt(nothing);
  expect(() => DiskJournal.open(here(), 'node-b', () => new Date(0))).toThrow('belongs to node node-a');
  expect(open().record.backend).toBe('nft');
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
  const journal = DiskJournal.open(here(), 'node-a', () => new Date(nowMs));
  await confirm(journal, 'aaaa', one);
  await failThrice(journal);
  for (nowMs = 1_000; nowMs < 100_000; nowMs += 1_000) {
    await journal.begin({ ...opening('aaaa', two), changeKind: 'endpoints' });
    await journal.abandon('the kernel refused', 'bundle');
  }
  expect([journal.failuresSince(0), journal.notBeforeMs]).toEqual([3, limits.backOffMs]);
});

test('counts no blameless rollback as a failure', async () => {
  let nowMs = 0;
  const journal = DiskJournal.open(here(), 'node-a', () => new Date(nowMs));
  await confirm(journal, 'aaaa', one);
  await failThrice(journal);
  nowMs = limits.backOffMs;
  await journal.begin(opening('eeee', two));
  await journal.abandon('the process ended', 'process');
  expect([journal.failuresSince(0), journal.notBeforeMs]).toEqual([3, limits.backOffMs]);
});

test('ignores failures later than now after the clock was set back', async () => {
  let nowMs = Date.parse('2099-01-01T00:00:00Z');
  const journal = DiskJournal.open(here(), 'node-a', () => new Date(nowMs));
  await confirm(journal, 'aaaa', one);
  await failThrice(journal);
  expect(journal.notBeforeMs).toBe(nowMs + limits.backOffMs);
  nowMs = Date.parse('2026-12-01T12:00:00Z');
  expect([journal.record.failures, journal.notBeforeMs]).toEqual([3, 0]);
});
