import {
  chmodSync,
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
import { changesFile, completeFile, completeText, fileDigest, RecentChanges } from '@sluice/bundle';
import { compareText } from '@sluice/netfilter';
import { runs } from '@sluice/testing';
import fc from 'fast-check';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { limits } from '../limits.ts';
import { sampleBundle, writeBundle } from '../testing/bundle.fixture.ts';
import { type Arrival, Inbox } from './inbox.ts';
import { trustOf } from './trust.ts';

/** Looks at a directory whose writer tells what it changed. */

const files = sampleBundle({ services: { 'shop/web': [1, 2], 'shop/cart': [3], 'bank/till': [4] } });
const services = 'profiles/default/services';
const web = `${services}/shop/web.iptables`;
const cart = `${services}/shop/cart.iptables`;
const till = `${services}/bank/till.iptables`;

let directory: string;
let bundle: string;
let inbox: Inbox;
let there: Map<string, string>;
let recent: RecentChanges;

beforeEach(async () => {
  directory = mkdtempSync(`${tmpdir()}/sluiced-told-`);
  bundle = `${directory}/rendered`;
  await begin();
});
afterEach(() => rmSync(directory, { recursive: true, force: true }));

async function begin(): Promise<void> {
  rmSync(bundle, { recursive: true, force: true });
  there = new Map(files);
  writeBundle(bundle, there);
  recent = new RecentChanges(complete());
  inbox = inboxOf();
  await inbox.look();
}

const inboxOf = (): Inbox => new Inbox(bundle, () => Date.now() + 60_000, trustOf(undefined));
const complete = (): string => completeText(new Map([...there].map(([path, text]) => [path, fileDigest(text)])));

/** Writes or removes a file, as a writer does; it tells nothing yet. */
function put(path: string, text: string | undefined): void {
  rmSync(`${bundle}/${completeFile}`, { force: true });
  if (text === undefined) {
    rmSync(`${bundle}/${path}`, { force: true });
    there.delete(path);
    const folder = dirname(`${bundle}/${path}`);
    if (readdirSync(folder).length === 0) rmSync(folder, { recursive: true });
    return;
  }
  mkdirSync(dirname(`${bundle}/${path}`), { recursive: true });
  writeFileSync(`${directory}/next`, text);
  renameSync(`${directory}/next`, `${bundle}/${path}`);
  there.set(path, text);
}

/** Seals the directory. @param told the paths that the writer names */
function seal(told: readonly string[]): void {
  recent = recent.with(told, complete());
  writeFileSync(`${bundle}/${changesFile}`, recent.text);
  writeFileSync(`${bundle}/${completeFile}`, complete());
}

/** What two inboxes can be compared by. */
const told = (arrival: Arrival): unknown =>
  arrival.kind === 'bundle'
    ? { ...arrival.tree, files: [...arrival.tree.files].toSorted(([a], [b]) => compareText(a, b)) }
    : arrival.kind === 'refused'
      ? arrival.problems
      : arrival.kind;

const change = (path: string, text: string | undefined): void => {
  put(path, text);
  seal([path]);
};

test('reads only what the writer names, and lists no folder', async () => {
  change(web, 'x');
  // A walk refuses this one, and so does the next whole look.
  writeFileSync(`${bundle}/${services}/shop/notes.txt`, 'x');
  const arrival = await inbox.look('changed');
  expect(arrival.kind === 'bundle' && arrival.tree.files.get(web)).toBe('x');
  expect((await inbox.look('whole')).kind).toBe('refused');
});

test('sees files that come and go, and folders with them', async () => {
  for (const [path, text] of [
    [web, 'x'],
    [till, undefined],
    [`${services}/new/one.iptables`, 'y'],
    [`${services}/shop-2/a.iptables`, 'z'],
    [`${services}/new/one.iptables`, undefined],
    [till, 'again'],
    ['nodes/z/node.yaml', 'x'],
  ] as const) {
    change(path, text);
    expect([path, told(await inbox.look('changed'))]).toEqual([path, told(await inboxOf().look())]);
  }
});

test('sees several publications at once, and more than the writer remembers', async () => {
  for (const count of [1, 3, 40]) {
    for (let n = 0; n < count; n++) change(n % 2 === 0 ? web : `${services}/shop/s${n}.iptables`, `${count} ${n}`);
    expect([count, told(await inbox.look('changed'))]).toEqual([count, told(await inboxOf().look())]);
  }
});

test('finds a change that the writer does not name, by the seal', async () => {
  put(web, 'x');
  put(cart, 'y');
  seal([web]);
  expect(told(await inbox.look('changed'))).toEqual(told(await inboxOf().look()));
  expect((await inbox.look('changed')).kind).toBe('bundle');
});

test.each([
  ['of another directory', () => `sha256:${'0'.repeat(64)}\n${web}\n${complete()}`],
  ['without its end', () => recent.text.slice(0, -2)],
  ['with a path outside of the format', () => recent.text.replace(web, '../../../etc/passwd')],
  ['that is empty', () => ''],
])('ignores what is told in a file %s', async (_title, text) => {
  change(web, 'x');
  writeFileSync(`${bundle}/${changesFile}`, text());
  expect(told(await inbox.look('changed'))).toEqual(told(await inboxOf().look()));
});

test.each([
  [
    'that is a link',
    () => {
      rmSync(`${bundle}/${web}`);
      symlinkSync('/etc/passwd', `${bundle}/${web}`);
    },
  ],
  ['that others may write', () => chmodSync(`${bundle}/${web}`, 0o666)],
  ['in a folder that others may write', () => chmodSync(`${bundle}/${dirname(web)}`, 0o777)],
])('refuses a named file %s', async (_title, spoil) => {
  change(web, 'x');
  spoil();
  const arrival = await inbox.look('changed');
  expect(arrival.kind).toBe('refused');
  expect(told(arrival)).toEqual(told(await inboxOf().look()));
});

test('waits for the seal of a writer that tells, without listing folders', async () => {
  change(web, 'x');
  await inbox.look('changed');
  put(web, 'y');
  put(cart, 'y');
  writeFileSync(`${bundle}/${services}/shop/notes.txt`, 'x');
  expect(told(await inbox.look('changed'))).toMatchObject([{ code: 'BUNDLE_INCOMPLETE' }]);
  rmSync(`${bundle}/${services}/shop/notes.txt`);
  seal([web, cart]);
  expect(told(await inbox.look('changed'))).toEqual(told(await inboxOf().look()));
});

test('applies the limits to a directory that grows by what is told', async () => {
  const { bundleFilesMax } = limits;
  Object.assign(limits, { bundleFilesMax: 30 });
  try {
    for (let n = 0; n < 30; n++) change(`${services}/many/s${n}.iptables`, 'x');
    expect(told(await inbox.look('changed'))).toMatchObject([
      { message: expect.stringContaining('more than 30 files') },
    ]);
  } finally {
    Object.assign(limits, { bundleFilesMax });
  }
});

const step = fc.record({
  path: fc.constantFrom(web, cart, till, `${services}/shop-2/a.iptables`, 'nodes/z/node.yaml'),
  text: fc.constantFrom('a', 'b', undefined),
  isTold: fc.boolean(),
  look: fc.constantFrom('changed', 'whole', 'none'),
});

test('finds the same as a first look, whatever is told', async () => {
  await fc.assert(
    fc.asyncProperty(fc.array(step, { minLength: 1, maxLength: 10 }), async (steps) => {
      await begin();
      for (const { path, text, isTold, look } of steps) {
        if (text === undefined && !there.has(path)) continue;
        put(path, text);
        seal(isTold ? [path] : []);
        if (look === 'none') continue;
        expect(told(await inbox.look(look))).toEqual(told(await inboxOf().look()));
      }
    }),
    runs(60),
  );
});
