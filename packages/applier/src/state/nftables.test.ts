import { mkdtempSync, readdirSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { limits } from '../limits.ts';
import type { NodeState } from '../ports/node-state.ts';
import { DiskJournal } from './journal.ts';
import { peek } from './peek.ts';

let directory: string;
beforeEach(() => {
  directory = mkdtempSync(`${tmpdir()}/sluiced-nftables-`);
});
afterEach(() => rmSync(directory, { recursive: true, force: true }));

const open = (): DiskJournal => DiskJournal.open(directory, 'node-1', () => new Date(0));
const none: NodeState = { families: {}, sysctls: new Map() };
const settings = ['table 4 address', 'pods 10.244.0.0/16'];

/** A state with some frontends, one of them with an endpoint of its own. */
function stateOf(endpoint: string, count = 3): NodeState {
  const frontends = new Map<string, readonly string[]>([
    [':: . udp . 30080', ['none refuse']],
    ['fd00:96::a . tcp . 443', ['cluster-ip', `endpoint ${endpoint}`]],
  ]);
  for (let at = 0; at < count; at++)
    frontends.set(`10.96.0.${at} . tcp . 80`, ['cluster-ip', 'endpoint 10.244.1.5 . 8080']);
  return { ...none, nft: { settings, frontends } };
}

/** With plain maps, as a test compares them. */
const plain = (state: NodeState | undefined): unknown =>
  state?.nft && { settings: state.nft.settings, frontends: new Map(state.nft.frontends) };

const intentOf = (version: string, state: NodeState): Parameters<DiskJournal['begin']>[0] => ({
  changeKind: 'release',
  flip: 'switch',
  version,
  state,
  sysctls: new Map(),
  flows: { old: [], fresh: [] },
});

async function confirm(journal: DiskJournal, version: string, state: NodeState, isUpdate = false): Promise<void> {
  if (!journal.active) await journal.adopt(none);
  await journal.begin({
    changeKind: isUpdate ? 'endpoints' : 'release',
    flip: 'ordered',
    version,
    state,
    sysctls: new Map(),
    flows: { old: [], fresh: [] },
  });
  await journal.commit();
  await journal.finish();
}

test('stores a generation of mode nftables and reads it back', async () => {
  await confirm(open(), 'aaaa', stateOf('fd00:244::5 . 8443'));
  expect(plain(open().active?.state)).toEqual(plain(stateOf('fd00:244::5 . 8443')));
});

test('a generation that was stored with an older text of the table has the newest one', async () => {
  const { nft } = stateOf('fd00:244::5 . 8443');
  const old = { settings: ['table 1 address', 'pods 10.244.0.0/16'], frontends: nft?.frontends ?? new Map() };
  await confirm(open(), 'aaaa', { ...none, nft: old });
  expect(plain(open().active?.state)).toEqual(plain(stateOf('fd00:244::5 . 8443')));
});

test('stores an endpoint update as one small object, and a long row of them', async () => {
  const journal = open();
  await confirm(journal, 'aaaa', stateOf('fd00:244::5 . 8443', 400));
  const before = readdirSync(`${directory}/store`).length;
  await confirm(journal, 'bbbb', stateOf('fd00:244::6 . 8443', 400), true);
  // Its delta, and the flows.
  expect(readdirSync(`${directory}/store`).length - before).toBeLessThanOrEqual(2);
  for (let step = 0; step < limits.deltasMax + 2; step++)
    await confirm(journal, `c${step}`, stateOf(`fd00:244::${step} . 8443`, 400 + step), true);
  const last = stateOf(`fd00:244::${limits.deltasMax + 1} . 8443`, 400 + limits.deltasMax + 1);
  expect(plain(open().active?.state)).toEqual(plain(last));
});

test('changed settings are no small difference', async () => {
  const journal = open();
  await confirm(journal, 'aaaa', stateOf('fd00:244::5 . 8443'));
  const { nft } = stateOf('fd00:244::5 . 8443');
  const other: NodeState = {
    ...none,
    nft: { settings: [...settings, 'cidr 10.96.0.0/16'], frontends: nft?.frontends ?? new Map() },
  };
  await confirm(journal, 'bbbb', other, true);
  expect(plain(open().active?.state)).toEqual(plain(other));
});

test('a journal has schema 3 as long as a kept generation is in mode nftables: the first sluiced refuses it', async () => {
  const journal = open();
  await confirm(journal, 'aaaa', none);
  expect(peek(directory)?.schema).toBe(2);
  await confirm(journal, 'bbbb', stateOf('fd00:244::5 . 8443'));
  expect(peek(directory)?.schema).toBe(3);
  for (let at = 0; at < limits.generationsKept + 1; at++)
    await confirm(journal, `v${at}`, { ...none, conntrackHashSize: at });
  expect(peek(directory)?.schema).toBe(2);
});

test('a journal has schema 3 as long as kube-proxy is kept away: the first sluiced refuses it by that number', async () => {
  const journal = open();
  await confirm(journal, 'aaaa', none);
  const hold = { kind: 'unit', unit: 'kube-proxy.service' } as const;
  const adoption = { goal: 'kube-proxy', hold, isStored: true, leftovers: { ipv4: 'aaaa' } } as const;
  await journal.keepAdoption(adoption);
  expect(peek(directory)?.schema).toBe(3);
  expect(open().adoption).toEqual(adoption);
  await open().forget();
  expect(peek(directory)).toMatchObject({ schema: 2 });
  expect(peek(directory)).not.toHaveProperty('adoption');
});

test('keeps which Service a frontend is of, what a generation lacks and what is quarantined', async () => {
  const services = new Map([
    ['shop/cart', ['frontend :: . udp . 30080', 'health 32090']],
    ['shop/empty', []],
  ]);
  const partial = { of: 'whole', services: ['shop/cart'], because: 'health failed' };
  const journal = open();
  await confirm(journal, 'aaaa', { ...stateOf('fd00:244::5 . 8443'), services });
  await journal.begin({ ...intentOf('whole', { ...stateOf('fd00:244::6 . 8443'), services }) });
  const to = { ...stateOf('fd00:244::7 . 8443'), services: new Map([...services, ['shop/late', []]]) };
  await journal.offer({ from: journal.active!.state, to, version: 'bbbb', partial, flows: { old: [], fresh: [] } });
  expect(open().active).not.toHaveProperty('partial');
  await journal.accept();
  await journal.commit('a note', [{ service: 'shop/cart', version: 'cccc', because: 'x'.repeat(1000) }]);
  await journal.finish();
  const next = open();
  expect(next.active).toMatchObject({ number: 2, version: 'bbbb', partial });
  expect(Object.fromEntries(next.active?.state.services ?? [])).toEqual(Object.fromEntries(to.services));
  expect(next.quarantinedServices).toMatchObject([{ service: 'shop/cart', version: 'cccc' }]);
  expect(next.quarantinedServices[0]?.because.length).toBeLessThan(500);
  expect(peek(directory)?.schema).toBe(3);
  expect(peek(directory)?.history.at(-1)).toMatchObject({ what: 'confirmed', without: ['shop/cart'] });
  expect(await next.lift('shop/cart')).toBe(true);
  expect(await next.lift('shop/cart')).toBe(false);
  expect(open().quarantinedServices).toEqual([]);
  // After a lost journal it is known from the text of the active generation.
  const [found] = [...open().storedGenerations()];
  expect(found).toMatchObject({ wasActive: true, generation: { partial } });
});

test('keeps the Services of a large state, and writes of another one what differs', async () => {
  const many = (last: string): Map<string, readonly string[]> =>
    new Map(Array.from({ length: 600 }, (_, at) => [`shop/s${at}`, [`health ${at === 599 ? last : at}`]]));
  const journal = open();
  await confirm(journal, 'aaaa', { ...stateOf('fd00:244::5 . 8443'), services: many('1') });
  const before = readdirSync(`${directory}/store`).length;
  const services = many('2');
  await confirm(journal, 'bbbb', { ...stateOf('fd00:244::5 . 8443'), services });
  expect(readdirSync(`${directory}/store`).length - before).toBeLessThanOrEqual(3);
  expect(Object.fromEntries(open().active?.state.services ?? [])).toEqual(Object.fromEntries(services));
});

test('a node that leaves mode nftables has a record that the version before reads', async () => {
  const journal = open();
  await confirm(journal, 'aaaa', stateOf('fd00:244::5 . 8443'));
  await journal.begin(intentOf('bbbb', stateOf('fd00:244::6 . 8443')));
  await journal.commit('a note', [{ service: 'shop/cart', version: 'cccc', because: 'x' }]);
  await journal.finish();
  expect(peek(directory)).toMatchObject({ schema: 3, quarantinedServices: [{}] });
  for (let number = 0; number < limits.generationsKept + 1; number++) await confirm(journal, `v${number}`, none);
  expect(peek(directory)).toMatchObject({ schema: 2 });
  expect(peek(directory)).not.toHaveProperty('quarantinedServices');
});

test('bounds the quarantined versions of Services', async () => {
  const journal = open();
  await confirm(journal, 'aaaa', stateOf('fd00:244::5 . 8443'));
  await journal.begin(intentOf('bbbb', stateOf('fd00:244::6 . 8443')));
  const many = Array.from({ length: 300 }, (_, at) => ({ service: `shop/s${at}`, version: 'cccc', because: 'x' }));
  await journal.commit(undefined, many);
  expect(open().quarantinedServices).toHaveLength(limits.quarantinedServicesMax);
  expect(open().quarantinedServices.at(-1)).toMatchObject({ service: 'shop/s299' });
});
