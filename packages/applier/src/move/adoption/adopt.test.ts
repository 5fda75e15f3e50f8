// @module-tag quick
import { KernelError } from '../../ports/failure.ts';
import { atTier } from '@sluice/testing';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import type { Outcome } from '../../ports/outcome.ts';
import { Countdown } from '../../testing/faults.fixture.ts';
import { adopt } from './adopt.ts';
import { bundleOf, hold, MovedNode, svc } from './moved-node.fixture.ts';
import { ipvsBundle } from '../../../../bundle/src/virtual/bundle.fixture.ts';
import { sampleBundle } from '../../testing/bundle.fixture.ts';
import { undo, type UndoDependencies } from './undo.ts';

let moved: MovedNode;
afterEach(() => moved.scene.end());

/** From mode ipvs most steps are the same. */
const proxies = atTier<readonly ('iptables' | 'ipvs')[]>({ quick: ['iptables'], test: ['iptables', 'ipvs'] });
const moves = proxies.flatMap((proxy) => (['iptables', 'nftables'] as const).map((mode) => [proxy, mode] as const));

describe.each(moves)('a move from mode %s of kube-proxy to mode %s', (proxy, mode) => {
  beforeEach(async () => void (moved = await MovedNode.begin(proxy)));

  test('ends with the rules of Sluice alone, and kube-proxy held; undo ends as it began', async () => {
    const before = await moved.text();
    expect(await moved.move(mode)).toMatchObject({ kind: 'adopted' });
    expect(moved.kernel.save('ipv4')).not.toMatch(/KUBE-S(VC|ERVICES)/);
    expect(moved.kernel.save('ipv4')).toContain('CNI-X');
    expect(moved.state).toEqual({ isHeld: true, running: [] });
    const { journal } = await moved.scene.start();
    const first = await journal.generation(0);
    expect(first?.state.families.ipv4?.nat.chains.has(proxy === 'ipvs' ? 'KUBE-SERVICES' : svc)).toBe(true);
    expect(first?.state.ipvs?.virtualServers.size).toBe(proxy === 'ipvs' ? 1 : undefined);
    expect(await moved.back()).toMatchObject({ kind: 'undone' });
    expect(moved.state).toEqual({ isHeld: false, running: [4711] });
    expect(await moved.text()).toBe(before);
    expect((await moved.scene.start()).journal.adoption).toBeUndefined();
  });

  test('leaves kube-proxy as it was when a probe fails on probation', async () => {
    const before = await moved.text();
    let asked = 0;
    moved.scene.health = () => asked++ === 0;
    expect(await moved.move(mode)).toMatchObject({ kind: 'not-confirmed', outcome: { kind: 'rolled-back' } });
    expect(await moved.text()).toBe(before);
    expect(moved.state).toEqual({ isHeld: false, running: [4711] });
    expect((await moved.scene.start()).journal.adoption).toBeUndefined();
  });

  test('is done again when kube-proxy does not stop, and removes nothing before', async () => {
    const { parts, front, instead } = await moved.process();
    const kubeProxy = { ...parts.kubeProxy, hold: async () => undefined };
    const ending = await adopt(bundleOf(mode), { kind: 'operator' }, { front, instead }, { ...parts, kubeProxy });
    expect(ending).toEqual({ kind: 'beneath', running: ['process 4711'] });
    expect(moved.kernel.save('ipv4')).toContain(
      '-A PREROUTING -m comment --comment "kubernetes service portals" -j KUBE-SERVICES',
    );
    expect(await moved.move(mode)).toMatchObject({ kind: 'adopted' });
  });

  test('does not stop kube-proxy while Services are left out, which only kube-proxy may serve', async () => {
    const { parts, journal, front, instead } = await moved.process();
    const put = async (...call: Parameters<typeof front.put>): Promise<Outcome> => {
      const outcome = await front.put(...call);
      if (outcome.kind !== 'confirmed') throw new Error(outcome.kind);
      const partial = { of: 'of', services: ['shop/cart'], because: 'a probe failed' };
      return { ...outcome, generation: { ...outcome.generation, partial } };
    };
    const lacking = { put, repair: () => front.repair(), reconcileFlows: () => front.reconcileFlows() };
    expect(await adopt(bundleOf(mode), hold, { front: lacking, instead }, parts)).toMatchObject({
      kind: 'not-confirmed',
    });
    expect(moved.state).toEqual({ isHeld: false, running: [4711] });
    expect(journal.adoption).toBeUndefined();
  });

  test('comes back with the rules of generation 0 when kube-proxy does not run again', async () => {
    const before = await moved.text();
    await moved.move(mode);
    const { parts, journal, any } = await moved.process();
    const kubeProxy = { ...parts.kubeProxy, release: async () => undefined };
    const ending = await undo({
      ...parts,
      journal,
      kubeProxy,
      cleanUp: () => any.cleanup(true),
      rollBackTo: (target) => any.rollBackTo(target),
    });
    expect(ending).toMatchObject({ kind: 'old-rules', outcome: { kind: 'confirmed' } });
    expect(await moved.text()).toBe(before);
    expect((await moved.scene.start()).journal.active).toBeUndefined();
  });

  test('is not undone where no move was made and no kube-proxy has rules', async () => {
    moved.scene.kubeProxies = [];
    const { any, instead } = await moved.process();
    await any.recover();
    expect(await instead.put(bundleOf(mode), true)).toMatchObject({ kind: 'confirmed' });
    expect(await moved.back()).toEqual({ kind: 'waits' });
    expect(await moved.serves()).toBe(true);
  });

  test.each(['before', 'after'] as const)(
    'serves after a crash %s any call, and goes on or back from there',
    { timeout: 60_000 },
    async (moment) => {
      const before = await moved.text();
      for (let at = 0; ; at++) {
        moved = await MovedNode.begin(proxy);
        const countdown = new Countdown(at, moment);
        await moved.move(mode, countdown).catch(() => undefined);
        expect({ at, serves: await moved.serves() }).toEqual({ at, serves: true });
        if (countdown.calls <= at) break;
        const isOn = at % 2 === 0;
        const ending = await (isOn ? moved.move(mode) : moved.back());
        expect({ at, kind: ending.kind }).toEqual({ at, kind: isOn ? 'adopted' : 'undone' });
        expect(moved.state).toEqual({ isHeld: isOn, running: isOn ? [] : [4711] });
        expect(isOn ? /KUBE-S(VC|ERVICES)/.test(await moved.text()) : await moved.text()).toBe(isOn ? false : before);
        expect(await moved.serves()).toBe(true);
        moved.scene.end();
      }
    },
  );

  test.each(['before', 'after'] as const)(
    'serves after a crash %s any call of an undo, which is finished by doing it again',
    { timeout: 60_000 },
    async (moment) => {
      const before = await moved.text();
      for (let at = 0; ; at++) {
        moved = await MovedNode.begin(proxy);
        await moved.move(mode);
        const countdown = new Countdown(at, moment);
        await moved.back(countdown).catch(() => undefined);
        expect({ at, serves: await moved.serves() }).toEqual({ at, serves: true });
        if (countdown.calls <= at) break;
        expect({ at, ...(await moved.back()) }).toMatchObject({ at, kind: 'undone' });
        expect(await moved.text()).toBe(before);
        expect(moved.state).toEqual({ isHeld: false, running: [4711] });
        moved.scene.end();
      }
    },
  );
});

describe('a kube-proxy whose rules stand beneath when it has stopped', () => {
  /** A move that ended before it removed them. */
  async function begin(): Promise<void> {
    moved = await MovedNode.begin('iptables');
    const bundle = sampleBundle({ services: { 'shop/web': [1, 2] }, families: ['ipv4'], protocol: 'udp' });
    const { front, parts } = await moved.process();
    const put = (): Promise<never> => Promise.reject(new Error('crash'));
    const instead = { put, repair: () => front.repair(), reconcileFlows: () => front.reconcileFlows() };
    await expect(adopt(bundle, hold, { front, instead }, parts)).rejects.toThrow('crash');
    moved.kernel.forgotten.length = 0;
  }

  /** An undo, after which kube-proxy runs and does this. */
  async function back(
    release: () => Promise<void>,
    rulesElsewhere: UndoDependencies['rulesElsewhere'] = async () => ({}),
  ) {
    const { parts, journal, any } = await moved.process();
    const kubeProxy = { ...parts.kubeProxy, release: () => release().then(() => undefined) };
    const cleanUp = () => any.cleanup(true);
    const rollBackTo = any.rollBackTo.bind(any);
    const say = (what: string): void => void said.push(what);
    return undo({ ...parts, say, journal, kubeProxy, rulesElsewhere, cleanUp, rollBackTo });
  }
  const said: string[] = [];
  const run = async (): Promise<void> => void (moved.scene.kubeProxies = [4711]);
  const deleted = () => moved.kernel.forgotten.map(({ endpoint }) => endpoint);

  test('keeps its UDP flows where it writes elsewhere next, and its old rules do not count', async () => {
    await begin();
    let looks = 0;
    const ending = await back(run, async () => (looks++ < 3 ? {} : { ipv4: 'new' }));
    expect({ ending, deleted: deleted() }).toMatchObject({ ending: { kind: 'undone' }, deleted: [] });
    expect(looks).toBeGreaterThan(3);
    expect(said.at(-1)).toContain('rules that an earlier kube-proxy left');
  });

  test('loses the UDP flows that it does not have where it writes them again', async () => {
    await begin();
    expect(await back(() => moved.startProxy())).toMatchObject({ kind: 'undone' });
    expect(deleted()).toContain('10.244.0.3:8080');
  });

  test('gets them back as they were where it writes nothing', async () => {
    moved = await MovedNode.begin('iptables');
    const before = await moved.text();
    moved.scene.end();
    await begin();
    expect(await back(run)).toMatchObject({ kind: 'old-rules', outcome: { kind: 'confirmed' } });
    expect(await moved.text()).toBe(before);
  });
});

test('an undo to mode ipvs deletes UDP flows to endpoints that its virtual servers do not have, and no others', async () => {
  moved = await MovedNode.begin('ipvs');
  const bundle = sampleBundle({ services: { 'shop/web': [1, 2] }, families: ['ipv4'], protocol: 'udp' });
  const first = await moved.process();
  await first.any.recover();
  const { front, instead } = first;
  expect(await adopt(bundle, hold, { front, instead }, first.parts)).toMatchObject({ kind: 'adopted' });
  const { parts, journal, any } = await moved.process();
  const release = async (): Promise<undefined> => {
    await parts.kubeProxy.release(hold);
    const text = '-A -u 10.96.0.11:80 -s rr\n-a -u 10.96.0.11:80 -r 10.244.0.2:8080 -m -w 1\n';
    await moved.kernel.ipvs.apply({ kind: 'ipvsadm', text, because: 'kube-proxy' });
  };
  moved.kernel.forgotten.length = 0;
  const kubeProxy = { ...parts.kubeProxy, release };
  const rollBackTo = any.rollBackTo.bind(any);
  const ending = await undo({ ...parts, journal, kubeProxy, cleanUp: () => any.cleanup(true), rollBackTo });
  expect(ending).toMatchObject({ kind: 'undone' });
  expect(moved.kernel.forgotten.map(({ endpoint }) => endpoint)).toEqual(['10.244.0.3:8080']);
});

test('an undo leaves the rules of Sluice in mode ipvs until kube-proxy has written its own', async () => {
  moved = await MovedNode.begin('iptables');
  expect(await moved.move('nftables')).toMatchObject({ kind: 'adopted' });
  const { parts, journal, any } = await moved.process();
  await any.recover();
  expect(await any.put(ipvsBundle, true)).toMatchObject({ kind: 'confirmed' });
  const before = moved.kernel.save('ipv4');
  expect(before).toMatch(/^-A KUBE-SERVICES .*-j KUBE-NODE/m);
  let seen = '';
  const release = async (): Promise<undefined> => void (seen = moved.kernel.save('ipv4'));
  const kubeProxy = { ...parts.kubeProxy, release };
  const rollBackTo = any.rollBackTo.bind(any);
  await undo({ ...parts, journal, kubeProxy, cleanUp: () => any.cleanup(true), rollBackTo });
  expect(seen).toBe(before);
});

test('the end of mode ipvs is announced, waits for connections, and says how many were still open', async () => {
  moved = await MovedNode.begin('ipvs');
  const [key = ''] = (await moved.kernel.ipvs.observe()).servers.keys();
  moved.kernel.ipvs.open.set(key, new Map([['10.244.0.2:8080', 3]]));
  const { parts, front, instead } = await moved.process();
  const said: string[] = [];
  const ending = await adopt(
    bundleOf('nftables'),
    hold,
    { front, instead },
    { ...parts, waitMs: 5_000, say: (what) => void said.push(what) },
  );
  expect(ending).toMatchObject({ kind: 'adopted', ipvs: { ended: 3, waitedMs: 5_000 } });
  expect(said.join('\n')).toMatch(
    /IPVS forwards 3 established connections now(.|\n)*waits up to 5 s(.|\n)*ends 3 established connections/,
  );
  expect((await moved.kernel.ipvs.observe()).bound).toBeUndefined();
});

test('the addresses of mode ipvs go also where conntrack fails, and the operator is told', async () => {
  moved = await MovedNode.begin('ipvs');
  const { parts, front, instead } = await moved.process();
  const said: string[] = [];
  const forgetFlows = (): Promise<never> => Promise.reject(new KernelError('conntrack', 'killed', 'killed'));
  const ending = await adopt(
    bundleOf('nftables'),
    hold,
    { front, instead },
    { ...parts, kernel: { ...parts.kernel, forgetFlows }, say: (what) => void said.push(what) },
  );
  expect(ending).toMatchObject({ kind: 'adopted' });
  expect(said.join('\n')).toMatch(/UDP that IPVS forwards were not deleted.*killed/);
  expect((await moved.kernel.ipvs.observe()).bound).toBeUndefined();
});

describe('a node with kube-proxy in mode iptables', () => {
  beforeEach(async () => void (moved = await MovedNode.begin('iptables')));

  test('a certificate that is required and not there is a refusal, and nothing is claimed', async () => {
    const before = await moved.text();
    const asked: string[] = [];
    const parity = {
      servesElsewhere: async () => false,
      refuse: async (version: string) => {
        asked.push(version);
        return { problems: [{ code: 'NODE_PARITY_MISSING', level: 'error', message: 'no', hint: '' }] } as const;
      },
    };
    for (const options of [{ beneath: true }, { takeOver: true }, {}]) {
      const { reconciler, journal } = await moved.scene.start(options, { parity });
      moved.scene.kubeProxies = [];
      const outcome = await reconciler.put(bundleOf('iptables'), true);
      expect(outcome).toMatchObject({ kind: 'refused', refusal: { problems: [{ code: 'NODE_PARITY_MISSING' }] } });
      expect(journal.active).toBeUndefined();
      expect(journal.open).toBeUndefined();
    }
    expect(await moved.text()).toBe(before);
    expect(new Set(asked).size).toBe(1);
  });

  test('a release that was rolled back is no take-over: the next one is asked for its certificate, too', async () => {
    const before = await moved.text();
    let asked = 0;
    const parity = {
      servesElsewhere: async () => false,
      refuse: async () => {
        if (asked++ === 0) return undefined;
        return { problems: [{ code: 'NODE_PARITY_MISSING', level: 'error', message: 'no', hint: '' }] } as const;
      },
    };
    let probed = 0;
    moved.scene.health = () => probed++ === 0;
    const { reconciler } = await moved.scene.start({ beneath: true }, { parity });
    expect(await reconciler.put(bundleOf('iptables'), true)).toMatchObject({ kind: 'rolled-back' });
    moved.scene.health = () => true;
    for (const options of [{ beneath: true }, { takeOver: true }]) {
      const next = await moved.scene.start(options, { parity });
      if ('takeOver' in options) moved.scene.kubeProxies = [];
      const outcome = await next.reconciler.put(bundleOf('iptables'), true);
      expect(outcome).toMatchObject({ kind: 'refused', refusal: { problems: [{ code: 'NODE_PARITY_MISSING' }] } });
    }
    expect(await moved.text()).toBe(before);
  });

  test.each([
    ['of both families', { ipv4: 'aaaa', ipv6: 'bbbb' }],
    ['of the other family', { ipv6: 'bbbb' }],
  ])(
    'rules %s that an earlier kube-proxy left elsewhere are none that it wrote, in a second undo either',
    async (_, left) => {
      const before = await moved.text();
      await moved.move('iptables');
      for (const isFirst of [true, false]) {
        const { parts, journal, any } = await moved.process();
        // It runs, and reaches no API server.
        const release = async (): Promise<undefined> => void (moved.scene.kubeProxies = [4711]);
        const ending = await undo({
          ...parts,
          journal,
          kubeProxy: { ...parts.kubeProxy, release },
          rulesElsewhere: async () => left,
          cleanUp: () => any.cleanup(true),
          // The first undo ends by a crash.
          rollBackTo: (target) => (isFirst ? Promise.reject(new Error('crash')) : any.rollBackTo(target)),
        }).catch(() => undefined);
        expect(ending?.kind).toBe(isFirst ? undefined : 'old-rules');
        expect(await moved.serves()).toBe(true);
      }
      expect(await moved.text()).toBe(before);
    },
  );

  test('rules that kube-proxy has changed elsewhere are its own', async () => {
    await moved.move('iptables');
    const { parts, journal, any } = await moved.process();
    let looks = 0;
    const ending = await undo({
      ...parts,
      journal,
      kubeProxy: { ...parts.kubeProxy, release: async () => void (moved.scene.kubeProxies = [4711]) },
      rulesElsewhere: async () => ({ ipv4: looks++ < 3 ? 'aaaa' : 'cccc' }),
      cleanUp: () => any.cleanup(true),
      rollBackTo: (target) => any.rollBackTo(target),
    });
    expect({ ending, looks }).toMatchObject({ ending: { kind: 'undone' }, looks: 4 });
  });

  test('layout flat, which has the names of kube-proxy, does not go in front of it', async () => {
    const before = await moved.text();
    moved.scene.layout = 'flat';
    const { reconciler, journal } = await moved.scene.start({ beneath: true, takeOrder: true });
    const outcome = await reconciler.put(bundleOf('iptables'), true);
    expect(outcome).toMatchObject({ kind: 'refused', refusal: { problems: [{ code: 'NODE_CANNOT_ADOPT' }] } });
    expect(journal.active).toBeUndefined();
    expect(await moved.text()).toBe(before);
  });
});
