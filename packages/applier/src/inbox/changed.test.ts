import {
  chmodSync,
  linkSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  renameSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname } from 'node:path';
import { completeText, fileDigest, sumsText, treeDigest } from '@sluice/bundle';
import { runs } from '@sluice/testing';
import fc from 'fast-check';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { limits } from '../limits.ts';
import { sampleBundle, writeBundle } from '../testing/bundle.fixture.ts';
import { type Arrival, Inbox } from './inbox.ts';
import { trustOf } from './trust.ts';

/** Looks after an event, which do not ask every file, beside looks at everything. */

let directory: string;
let bundle: string;
let inbox: Inbox;
/** Everything that was written so far is old. */
let nowMs: number;
const files = sampleBundle({ services: { 'shop/web': [1, 2], 'shop/cart': [3], 'bank/till': [4] } });
const services = 'profiles/default/services';
const web = `${services}/shop/web.iptables`;
const till = `${services}/bank/till.iptables`;

beforeEach(async () => {
  directory = mkdtempSync(`${tmpdir()}/sluiced-changed-`);
  bundle = `${directory}/rendered`;
  nowMs = Date.now() + 60_000;
  writeBundle(bundle, files);
  inbox = inboxOf();
  await inbox.look();
});
afterEach(() => rmSync(directory, { recursive: true, force: true }));

const inboxOf = (): Inbox => new Inbox(bundle, () => nowMs, trustOf(undefined));

function replace(path: string, text: string): void {
  mkdirSync(dirname(`${bundle}/${path}`), { recursive: true });
  writeFileSync(`${directory}/next`, text);
  renameSync(`${directory}/next`, `${bundle}/${path}`);
}

const digestsOf = (all: ReadonlyMap<string, string>): Map<string, string> =>
  new Map([...all].map(([path, text]) => [path, fileDigest(text)]));
const seal = (all: ReadonlyMap<string, string>): void => replace('.sluice-complete', completeText(digestsOf(all)));
const withText = (path: string, text: string): Map<string, string> => new Map([...files, [path, text]]);
const without = (path: string): Map<string, string> => new Map([...files].filter(([one]) => !one.startsWith(path)));

/** What two inboxes can be compared by. */
const told = (arrival: Arrival): unknown =>
  arrival.kind === 'bundle'
    ? { ...arrival.tree, files: [...arrival.tree.files] }
    : arrival.kind === 'refused'
      ? arrival.problems
      : arrival.kind;

const edits: readonly [title: string, edit: () => void][] = [
  ['nothing', () => undefined],
  ['a file that is replaced', () => (replace(web, 'x'), seal(withText(web, 'x')))],
  ['a file that is replaced before its seal', () => replace(web, 'x')],
  ['a file that is written in place', () => (writeFileSync(`${bundle}/${web}`, 'x'), seal(withText(web, 'x')))],
  ['a file that goes', () => (rmSync(`${bundle}/${web}`), seal(without(web)))],
  ['a folder that goes', () => (rmSync(`${bundle}/${dirname(till)}`, { recursive: true }), seal(without(till)))],
  [
    'a folder that comes',
    () => (replace(`${services}/new/one.iptables`, 'x'), seal(withText(`${services}/new/one.iptables`, 'x'))),
  ],
  [
    'a folder whose name sorts around its neighbour',
    () => (replace(`${services}/shop-2/a.iptables`, 'x'), seal(withText(`${services}/shop-2/a.iptables`, 'x'))),
  ],
  ['a file of another node', () => (replace('nodes/z/node.yaml', 'x'), seal(withText('nodes/z/node.yaml', 'x')))],
  ['a foreign file', () => replace(`${services}/shop/notes.txt`, 'x')],
  ['a link', () => symlinkSync('/etc/passwd', `${bundle}/${services}/shop/link`)],
  ['a folder that others may write', () => chmodSync(`${bundle}/${services}/shop`, 0o777)],
  ['a seal that goes', () => rmSync(`${bundle}/.sluice-complete`)],
  ['a directory that goes', () => rmSync(bundle, { recursive: true })],
  [
    'a directory that is swapped for a copy',
    () => (renameSync(bundle, `${directory}/old`), writeBundle(bundle, withText(web, 'x'))),
  ],
  [
    'sums in place of the seal',
    () => (rmSync(`${bundle}/.sluice-complete`), replace('SHA256SUMS', sumsText(digestsOf(files)))),
  ],
  ['sums that do not fit', () => replace('SHA256SUMS', sumsText(digestsOf(withText(web, 'x'))))],
  ['sums that name a node that is not there', () => (rmSync(`${bundle}/.sluice-complete`), replaceSums())],
];

function replaceSums(): void {
  replace('SHA256SUMS', sumsText(digestsOf(withText('nodes/elsewhere/node.yaml', 'x'))));
}

test.each(edits)('sees %s like a first look', async (_title, edit) => {
  edit();
  expect(told(await inbox.look('changed'))).toEqual(told(await inboxOf().look()));
});

describe('a whole look in steps', () => {
  const { filesPerStep } = limits;
  beforeEach(() => void Object.assign(limits, { filesPerStep: 2 }));
  afterEach(() => void Object.assign(limits, { filesPerStep }));

  test.each(edits)('sees %s like a first look', async (_title, edit) => {
    edit();
    const arrival = await inbox.lookInSteps(new AbortController().signal);
    expect(arrival !== 'interrupted' && told(arrival)).toEqual(told(await inboxOf().look()));
  });

  test('ends for more urgent work, keeps what was known, and leaves nothing open', async () => {
    const openFiles = (): number => readdirSync('/proc/self/fd').length;
    const before = openFiles();
    const known = await inbox.look('changed');
    chmodSync(`${bundle}/${web}`, 0o666);
    const urgent = new AbortController();
    const look = inbox.lookInSteps(urgent.signal);
    setImmediate(() => urgent.abort());
    expect(await look).toBe('interrupted');
    const again = await inbox.look('changed');
    expect(known.kind === 'bundle' && again.kind === 'bundle' && known.tree === again.tree).toBe(true);
    expect((await inbox.lookInSteps(new AbortController().signal)) as Arrival).toMatchObject({ kind: 'refused' });
    expect(openFiles()).toBe(before);
  });

  test('ends for a writer whose change it meets', async () => {
    const urgent = new AbortController();
    const look = inbox.lookInSteps(urgent.signal);
    rmSync(`${bundle}/.sluice-complete`);
    setImmediate(() => urgent.abort());
    expect(await look).toBe('interrupted');
  });
});

test('computes the digest of the format in any order of folders', async () => {
  const more = withText(`${services}/shop-2/a.iptables`, 'x').set(`${services}/shop/a.ip6tables`, 'y');
  replace(`${services}/shop-2/a.iptables`, 'x');
  replace(`${services}/shop/a.ip6tables`, 'y');
  seal(more);
  expect(await inbox.look('changed')).toMatchObject({ tree: { digest: treeDigest(digestsOf(more)) } });
});

test('returns the same value for the same tree, also after a refusal', async () => {
  const first = await inbox.look();
  rmSync(`${bundle}/.sluice-complete`);
  expect([(await inbox.look()).kind, (await inbox.look()).kind], 'both times').toEqual(['refused', 'refused']);
  seal(files);
  const last = await inbox.look('changed');
  expect(first.kind === 'bundle' && last.kind === 'bundle' && first.tree === last.tree).toBe(true);
});

describe('a change that neither folders nor seal show', () => {
  const spoiled: readonly [title: string, spoil: () => void][] = [
    ['a file that others may write', () => chmodSync(`${bundle}/${web}`, 0o666)],
    ['a file with a second name', () => linkSync(`${bundle}/${web}`, `${directory}/second`)],
    ['a file that was written in place, against the seal', () => writeFileSync(`${bundle}/${web}`, 'x')],
  ];
  test.each(spoiled)('refuses %s at the next whole look, until one finds it repaired', async (_title, spoil) => {
    spoil();
    const after = await inbox.look('changed');
    expect(after.kind === 'bundle' && after.tree.digest, 'the tree that its writer sealed').toBe(
      treeDigest(digestsOf(files)),
    );
    expect([(await inbox.look()).kind, (await inbox.look('changed')).kind]).toEqual(['refused', 'refused']);
  });
});

test('finds a change that left the stamp of its folder, by the seal', async () => {
  await inbox.look('changed');
  writeFileSync(`${bundle}/${web}`, 'y');
  seal(withText(web, 'y'));
  const arrival = await inbox.look('changed');
  expect(arrival.kind === 'bundle' && arrival.tree.files.get(web)).toBe('y');
});

describe('a directory without a seal', () => {
  /** A directory of which a writer has put a part in place, and an inbox that was opened then. */
  const begin = (): void => {
    rmSync(bundle, { recursive: true });
    writeBundle(bundle, without(dirname(till)));
    rmSync(`${bundle}/.sluice-complete`);
    nowMs = Date.now();
    inbox = inboxOf();
  };
  const isFilling = async (): Promise<boolean> => {
    const arrival = await inbox.look('changed');
    return arrival.kind === 'refused' && arrival.isFilling === true;
  };

  test('is filling while a writer adds files to it or changes them', async () => {
    begin();
    expect([await isFilling(), await isFilling()]).toEqual([true, false]);
    replace(till, files.get(till) ?? '');
    expect([await isFilling(), await isFilling()]).toEqual([true, false]);
    replace(till, 'x');
    expect([await isFilling(), await isFilling()]).toEqual([true, false]);
  });

  test('is not filling with a file that no bundle has', async () => {
    begin();
    replace(`${services}/shop/notes.txt`, 'x');
    expect([await isFilling(), await isFilling()]).toEqual([false, false]);
  });

  test('is read ahead: its files are not read again behind the seal', async () => {
    begin();
    await isFilling();
    // Only a file that is read again has this text.
    writeFileSync(`${bundle}/${web}`, 'x');
    replace(till, files.get(till) ?? '');
    seal(files);
    const arrival = await inbox.look('changed');
    expect(arrival.kind === 'bundle' && arrival.tree.files.get(web)).toBe(files.get(web));
  });

  test('is read again where the seal is of other texts', async () => {
    begin();
    await isFilling();
    writeFileSync(`${bundle}/${web}`, 'x');
    replace(till, files.get(till) ?? '');
    seal(withText(web, 'x'));
    const arrival = await inbox.look('changed');
    expect(arrival.kind === 'bundle' && arrival.tree.files.get(web)).toBe('x');
  });
});

test('applies the limits to files that are not read, too', async () => {
  const folder = `${services}/many`;
  const all = new Map(files);
  for (let n = 0; n < 30; n++) all.set(`${folder}/s${n}.iptables`, 'x'.repeat(n));
  writeBundle(bundle, all);
  await inbox.look();
  const { bundleFilesMax } = limits;
  Object.assign(limits, { bundleFilesMax: 40 });
  try {
    for (let n = 0; n < 10; n++) all.set(`${services}/more/s${n}.iptables`, 'x');
    writeBundle(bundle, all);
    expect(told(await inbox.look('changed'))).toMatchObject([
      { message: expect.stringContaining('more than 40 files') },
    ]);
  } finally {
    Object.assign(limits, { bundleFilesMax });
  }
});

/** Writes by renaming, in folders that come and go; sometimes no seal follows, and sometimes a look does not follow either. */
const step = fc.record({
  path: fc.constantFrom(web, till, `${services}/shop-2/a.iptables`, 'nodes/z/node.yaml', `${services}/shop/x.txt`),
  text: fc.constantFrom('a', 'b', undefined),
  sealed: fc.boolean(),
  looked: fc.boolean(),
  laterMs: fc.constantFrom(0, 60_000),
});

test('finds the same after an event as a first look, whatever happens to the directory', async () => {
  await fc.assert(
    fc.asyncProperty(fc.array(step, { minLength: 1, maxLength: 12 }), async (steps) => {
      rmSync(bundle, { recursive: true, force: true });
      const there = new Map(files);
      writeBundle(bundle, there);
      nowMs = Date.now();
      const known = inboxOf();
      await known.look();
      const pairs: [unknown, unknown][] = [];
      for (const { path, text, sealed, looked, laterMs } of steps) {
        if (text === undefined) {
          if (there.delete(path)) rmSync(dirname(`${bundle}/${path}`), { recursive: true });
          for (const other of there.keys()) if (dirname(other) === dirname(path)) there.delete(other);
        } else {
          replace(path, text);
          there.set(path, text);
        }
        if (sealed) seal(there);
        nowMs = Date.now() + laterMs;
        if (looked) pairs.push([told(await known.look('changed')), told(await inboxOf().look())]);
      }
      pairs.push([told(await known.look('changed')), told(await inboxOf().look())]);
      expect(pairs.map(([changed]) => changed)).toEqual(pairs.map(([, first]) => first));
    }),
    runs(60),
  );
});
