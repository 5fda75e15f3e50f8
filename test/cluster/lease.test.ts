import { afterEach, beforeEach, expect, test, vi } from 'vitest';
import { openAccess } from '../../packages/renderer/src/cluster/access.ts';
import { Elector } from '../../packages/renderer/src/cluster/watch/lease.ts';
import { token } from './apiserver.fixture.ts';
import { LeaseServer } from './lease.fixture.ts';
import { LiveCluster } from './live.fixture.ts';

const patience = { requestTimeoutMs: 1_000, backoffMs: 1, answerBytesMax: 100_000 };
// A process that gets no processor for 0.2 s, as on a loaded machine, must not lose the Lease by that.
const bounds = { durationMs: 1_000, renewWithinMs: 800, retryMs: 20 };

let cluster: LiveCluster;
let leases: LeaseServer;
/** Events in order: `a+` a gained it, `a-` a lost it. */
let log: string[];
let failures: string[];
const runs: { readonly stop: AbortController; readonly done: Promise<void> }[] = [];

beforeEach(async () => {
  cluster = await LiveCluster.start();
  leases = new LeaseServer();
  cluster.server.intercept = (path, request, response) => leases.answer(path, request, response);
  [log, failures] = [[], []];
});
afterEach(async () => {
  for (const { stop } of runs) stop.abort();
  await Promise.all(runs.splice(0).map(({ done }) => done));
  await cluster.server.close();
});

const electors = new Map<string, Elector>();

function elect(holder: string): AbortController {
  const stop = new AbortController();
  const access = openAccess({ kubeconfig: cluster.server.kubeconfig({ token }) }, {});
  const listener = {
    gained: () => log.push(`${holder}+`),
    lost: () => log.push(`${holder}-`),
    failed: (why: string) => failures.push(why),
    answered: () => {},
  };
  const name = { namespace: 'kube-system', name: 'sluice', holder };
  const elector = new Elector(access, name, listener, bounds, patience);
  electors.set(holder, elector);
  runs.push({ stop, done: elector.run(stop.signal) });
  return stop;
}

async function until(...wanted: readonly string[]): Promise<void> {
  await vi.waitFor(() => expect(log).toEqual(wanted), { timeout: 5_000, interval: 5 });
}

/** The failure is reported more than once. Others may stand between: on a loaded machine any request can take too long. */
async function reports(failure: RegExp, times = 2): Promise<void> {
  const found = (): readonly string[] => failures.filter((why) => failure.test(why));
  await vi.waitFor(() => expect(found().length).toBeGreaterThanOrEqual(times), { timeout: 5_000, interval: 5 });
}

test('one of several holds it; when it ends, another one gets it at once', async () => {
  const first = elect('a');
  await until('a+');
  elect('b');
  await new Promise((resolve) => setTimeout(resolve, bounds.durationMs * 2));
  expect(log).toEqual(['a+']);
  first.abort();
  await until('a+', 'a-', 'b+');
  expect(leases.spec('sluice')).toMatchObject({ holderIdentity: 'b', leaseTransitions: 2, leaseDurationSeconds: 1 });
});

test('a holder that cannot renew it stops before the next one starts', async () => {
  elect('a');
  await until('a+');
  leases.isDeafTo = 'a';
  elect('b');
  await until('a+', 'a-', 'b+');
  await reports(/no response within/);
  expect(log).toEqual(['a+', 'a-', 'b+']);
});

test('a note of the holder is kept for the next one, beside foreign annotations', async () => {
  leases.put('sluice', { holderIdentity: '' }, { team: 'network' });
  const first = elect('a');
  await until('a+');
  // A renewal may come between, and a request may take too long on a loaded machine.
  const note = (holder: string, expected: string | undefined, replace: (note: string) => string): Promise<void> =>
    vi.waitFor(async () => expect(await electors.get(holder)?.note(replace)).toBe(expected), { timeout: 5_000 });
  await note('a', '1000', () => '1000');
  elect('b');
  await note('b', undefined, () => 'of another');
  first.abort();
  await vi.waitFor(() => expect(log).toContain('b+'), { timeout: 5_000 });
  await note('b', '1000', (before) => before);
  expect(leases.annotations('sluice')).toEqual({ team: 'network', 'sluice.dev/last-serial': '1000' });
});

test('takes over an expired Lease', async () => {
  leases.put('sluice', { holderIdentity: 'dead', renewTime: '2999-01-01T00:00:00.000000Z' });
  elect('a');
  await new Promise((resolve) => setTimeout(resolve, bounds.durationMs / 2));
  expect(log).toEqual([]);
  await until('a+');
});

test.each([
  ['made', 404],
  ['made', 422],
  ['made', 500],
  ['changed', 429],
])('reports that it cannot be %s (%i)', async (how, status) => {
  if (how === 'changed') leases.put('sluice', { holderIdentity: 'a' });
  leases.writeStatus = status;
  elect('a');
  await reports(new RegExp(`Cannot write Lease kube-system/sluice .*answered ${status}`));
  expect(log).toEqual([]);
  leases.writeStatus = 200;
  await until('a+');
});

test('names the rule that grants missing rights', async () => {
  leases.status = 403;
  elect('a');
  await reports(/Cannot hold Lease kube-system\/sluice .*permission denied/);
  expect(log).toEqual([]);
});

test('refuses one of two simultaneous takers', async () => {
  leases.put('sluice', { holderIdentity: '' });
  elect('a');
  elect('b');
  await vi.waitFor(() => expect(log).toHaveLength(1), { timeout: 5_000 });
  await new Promise((resolve) => setTimeout(resolve, bounds.durationMs));
  expect(log).toHaveLength(1);
});
