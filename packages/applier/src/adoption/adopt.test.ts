// @module-tag quick
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import type { Hold } from '../ports/adoption.ts';
import type { Journal } from '../ports/journal.ts';
import type { Outcome } from '../ports/outcome.ts';
import { hash16, sampleBundle } from '../testing/bundle.fixture.ts';
import { kernelText } from '../testing/data-plane.fixture.ts';
import { Countdown, mortalJournal, mortalKernel } from '../testing/faults.fixture.ts';
import { type Scene, scene, steppingClock } from '../testing/scene.fixture.ts';
import { adopt, type AdoptionParts, type AdoptEnding } from './adopt.ts';
import { undo, type UndoEnding } from './undo.ts';

const svc = `KUBE-SVC-${hash16('shop/web of kube-proxy')}`;
/** The rules of kube-proxy, and of a CNI plugin that refers to a chain of it. */
const rules = `*filter
:KUBE-SERVICES - [0:0]
:KUBE-FORWARD - [0:0]
-A KUBE-FORWARD -m conntrack --ctstate INVALID -j DROP
COMMIT
*nat
:KUBE-SERVICES - [0:0]
:KUBE-NODEPORTS - [0:0]
:KUBE-POSTROUTING - [0:0]
:KUBE-MARK-MASQ - [0:0]
:${svc} - [0:0]
-A KUBE-MARK-MASQ -j MARK --or-mark 0x4000
-A KUBE-POSTROUTING -m mark ! --mark 0x4000/0x4000 -j RETURN
-A KUBE-POSTROUTING -j MASQUERADE --random-fully
-A KUBE-SERVICES -d 10.96.0.11/32 -p tcp -m tcp --dport 80 -j ${svc}
-A ${svc} -p tcp -m tcp -j DNAT --to-destination 10.244.0.2:8080
-A KUBE-SERVICES -m addrtype --dst-type LOCAL -j KUBE-NODEPORTS
COMMIT
`;
const jumps = `*filter
-I FORWARD -m comment --comment "kubernetes forwarding rules" -j KUBE-FORWARD
COMMIT
*nat
-I PREROUTING -m comment --comment "kubernetes service portals" -j KUBE-SERVICES
-I OUTPUT -m comment --comment "kubernetes service portals" -j KUBE-SERVICES
-I POSTROUTING -m comment --comment "kubernetes postrouting rules" -j KUBE-POSTROUTING
COMMIT
`;
const foreign = '*nat\n:CNI-X - [0:0]\n-A POSTROUTING -s 10.244.0.0/16 -j CNI-X\n-A CNI-X -j RETURN\nCOMMIT\n';

const hold: Hold = { kind: 'manifest', manifest: '/etc/kubernetes/manifests/kube-proxy.yaml' };

let node: Scene;
/** Whether kube-proxy may run: as on a disk, that outlives a process. */
let isHeld = false;

/** kube-proxy starts: it inserts the jumps that are missing, and writes its rules anew. */
function startProxy(): void {
  if (node.kubeProxies.length > 0) return;
  node.kubeProxies = [4711];
  const missing = jumps.split('\n').filter((line) => !line.startsWith('-I ') || !hasJump(line));
  node.kernel.load('ipv4', rules);
  node.kernel.load('ipv4', missing.join('\n'));
}

function hasJump(line: string): boolean {
  const [, hook, target] = /^-I (\S+) .*-j (\S+)$/.exec(line) ?? [];
  return new RegExp(`^-A ${hook} .*-j ${target}$`, 'm').test(node.kernel.save('ipv4'));
}

function begin(): void {
  node = scene({ rules: { ipv4: foreign } });
  node.layout = 'tree';
  isHeld = false;
  startProxy();
}

/** Whether packets to shop/web meet rules that serve it. */
function serves(): boolean {
  const saved = node.kernel.save('ipv4');
  const jump = (to: string): boolean => new RegExp(`^-A PREROUTING .*-j ${to}$`, 'm').test(saved);
  const ofProxy = jump('KUBE-SERVICES') && saved.includes(`-A ${svc} `);
  const ours = jump('SLUICE-SERVICES') && /^-A SLUICE-SERVICES .*-[jg] SLUICE-R/m.test(saved);
  const table = node.kernel.nft.list()?.elements.get('svc4');
  return ofProxy || ours || (table !== undefined && table.size > 0);
}

type Mode = 'iptables' | 'nftables';
const bundleOf = (mode: Mode) => sampleBundle({ services: { 'shop/web': [1, 2] }, families: ['ipv4'], mode });

interface Mortal {
  readonly countdown: Countdown;
}

/** A process. @param dying at which call it crashes */
async function processOf(dying?: Mortal) {
  const plain = await node.start();
  const { countdown } = dying ?? { countdown: new Countdown(-1, 'before') };
  const kernel = mortalKernel(node.kernel, countdown);
  const journal: Journal = mortalJournal(plain.journal, countdown);
  const clock = steppingClock();
  const start = async (options: object) => (await node.start(options, { kernel, journal, clock })).reconciler;
  const parts: AdoptionParts = {
    journal,
    kernel,
    clock,
    families: ['ipv4'],
    kubeProxy: {
      running: () => node.kubeProxies.map((pid) => `process ${pid}`),
      refuses: async () => undefined,
      hold: () =>
        countdown.through(async () => {
          isHeld = true;
          node.kubeProxies = [];
        }),
      release: () =>
        countdown.through(async () => {
          isHeld = false;
          startProxy();
          return undefined;
        }),
    },
    removeTables: async () => 0,
    say: () => undefined,
    waitMs: 1_000,
  };
  const any = await start({});
  return {
    parts,
    journal,
    any,
    front: await start({ beneath: true, takeOrder: true }),
    instead: await start({ takeOver: true }),
  };
}

async function move(mode: Mode, dying?: Mortal): Promise<AdoptEnding> {
  const { parts, any, front, instead } = await processOf(dying);
  await any.recover();
  return adopt(bundleOf(mode), hold, { front, instead }, parts);
}

async function back(dying?: Mortal): Promise<UndoEnding> {
  const { parts, journal, any } = await processOf(dying);
  await any.recover();
  const cleanUp = (): Promise<number> => any.cleanup(true);
  return undo({ ...parts, journal, cleanUp, rollBackTo: (target) => any.rollBackTo(target) });
}

/** All rules, chain by chain: a chain that kube-proxy writes anew is listed later. */
const text = (): string => kernelText(node.kernel).split('\n').toSorted().join('\n');

beforeEach(begin);
afterEach(() => node.end());

describe.each(['iptables', 'nftables'] as const)('a move to mode %s', (mode) => {
  test('ends with the rules of Sluice alone, and kube-proxy held; undo ends as it began', async () => {
    const before = text();
    expect(await move(mode)).toMatchObject({ kind: 'adopted' });
    expect(node.kernel.save('ipv4')).not.toMatch(/KUBE-S(VC|ERVICES)/);
    expect(node.kernel.save('ipv4')).toContain('CNI-X');
    expect({ isHeld, running: node.kubeProxies }).toEqual({ isHeld: true, running: [] });
    const { journal } = await node.start();
    const first = await journal.generation(0);
    expect(first?.state.families.ipv4?.nat.chains.has(svc)).toBe(true);
    expect(await back()).toMatchObject({ kind: 'undone' });
    expect({ isHeld, running: node.kubeProxies }).toEqual({ isHeld: false, running: [4711] });
    expect(text()).toBe(before);
    expect((await node.start()).journal.adoption).toBeUndefined();
  });

  test('leaves kube-proxy as it was when a probe fails on probation', async () => {
    const before = text();
    let asked = 0;
    node.health = () => asked++ === 0;
    expect(await move(mode)).toMatchObject({ kind: 'not-confirmed', outcome: { kind: 'rolled-back' } });
    expect(text()).toBe(before);
    expect({ isHeld, running: node.kubeProxies }).toEqual({ isHeld: false, running: [4711] });
    expect((await node.start()).journal.adoption).toBeUndefined();
  });

  test('is done again when kube-proxy does not stop, and removes nothing before', async () => {
    const { parts, front, instead } = await processOf();
    const kubeProxy = { ...parts.kubeProxy, hold: async () => undefined };
    const ending = await adopt(bundleOf(mode), { kind: 'operator' }, { front, instead }, { ...parts, kubeProxy });
    expect(ending).toEqual({ kind: 'beneath', running: ['process 4711'] });
    expect(node.kernel.save('ipv4')).toContain(`-A ${svc} `);
    expect(await move(mode)).toMatchObject({ kind: 'adopted' });
  });

  test('does not stop kube-proxy while Services are left out, which only kube-proxy may serve', async () => {
    const { parts, journal, front, instead } = await processOf();
    const put = async (...call: Parameters<typeof front.put>): Promise<Outcome> => {
      const outcome = await front.put(...call);
      if (outcome.kind !== 'confirmed') throw new Error(outcome.kind);
      const partial = { of: 'of', services: ['shop/cart'], because: 'a probe failed' };
      return { ...outcome, generation: { ...outcome.generation, partial } };
    };
    const lacking = { put, repair: () => front.repair() };
    expect(await adopt(bundleOf(mode), hold, { front: lacking, instead }, parts)).toMatchObject({
      kind: 'not-confirmed',
    });
    expect({ isHeld, running: node.kubeProxies }).toEqual({ isHeld: false, running: [4711] });
    expect(journal.adoption).toBeUndefined();
  });

  test('comes back with the rules of generation 0 when kube-proxy does not run again', async () => {
    const before = text();
    await move(mode);
    const { parts, journal, any } = await processOf();
    const kubeProxy = { ...parts.kubeProxy, release: async () => undefined };
    const ending = await undo({
      ...parts,
      journal,
      kubeProxy,
      cleanUp: () => any.cleanup(true),
      rollBackTo: (target) => any.rollBackTo(target),
    });
    expect(ending).toMatchObject({ kind: 'old-rules', outcome: { kind: 'confirmed' } });
    expect(text()).toBe(before);
    expect((await node.start()).journal.active).toBeUndefined();
  });

  test('is not undone where no move was made and no kube-proxy has rules', async () => {
    node.kubeProxies = [];
    const { any, instead } = await processOf();
    await any.recover();
    expect(await instead.put(bundleOf(mode), true)).toMatchObject({ kind: 'confirmed' });
    expect(await back()).toEqual({ kind: 'waits' });
    expect(serves()).toBe(true);
  });

  test.each(['before', 'after'] as const)(
    'serves after a crash %s any call, and goes on or back from there',
    { timeout: 60_000 },
    async (moment) => {
      const before = text();
      for (let at = 0; ; at++) {
        begin();
        const countdown = new Countdown(at, moment);
        await move(mode, { countdown }).catch(() => undefined);
        expect({ at, serves: serves() }).toEqual({ at, serves: true });
        if (countdown.calls <= at) break;
        const isOn = at % 2 === 0;
        const ending = await (isOn ? move(mode) : back());
        expect({ at, kind: ending.kind }).toEqual({ at, kind: isOn ? 'adopted' : 'undone' });
        expect({ isHeld, running: node.kubeProxies }).toEqual({ isHeld: isOn, running: isOn ? [] : [4711] });
        expect(isOn ? /KUBE-S(VC|ERVICES)/.test(text()) : text()).toBe(isOn ? false : before);
        expect(serves()).toBe(true);
        node.end();
      }
    },
  );

  test.each(['before', 'after'] as const)(
    'serves after a crash %s any call of an undo, which is finished by doing it again',
    { timeout: 60_000 },
    async (moment) => {
      const before = text();
      for (let at = 0; ; at++) {
        begin();
        await move(mode);
        const countdown = new Countdown(at, moment);
        await back({ countdown }).catch(() => undefined);
        expect({ at, serves: serves() }).toEqual({ at, serves: true });
        if (countdown.calls <= at) break;
        expect({ at, ...(await back()) }).toMatchObject({ at, kind: 'undone' });
        expect(text()).toBe(before);
        expect({ isHeld, running: node.kubeProxies }).toEqual({ isHeld: false, running: [4711] });
        node.end();
      }
    },
  );
});

test('a certificate that is required and not there is a refusal, and nothing is claimed', async () => {
  const before = text();
  const asked: string[] = [];
  const parity = {
    standsElsewhere: async () => false,
    refuse: async (version: string) => {
      asked.push(version);
      return { problems: [{ code: 'NODE_PARITY_MISSING', level: 'error', message: 'no', hint: '' }] } as const;
    },
  };
  for (const options of [{ beneath: true }, { takeOver: true }, {}]) {
    const { reconciler, journal } = await node.start(options, { parity });
    node.kubeProxies = [];
    const outcome = await reconciler.put(bundleOf('iptables'), true);
    expect(outcome).toMatchObject({ kind: 'refused', refusal: { problems: [{ code: 'NODE_PARITY_MISSING' }] } });
    expect(journal.active).toBeUndefined();
    expect(journal.open).toBeUndefined();
  }
  expect(text()).toBe(before);
  expect(new Set(asked).size).toBe(1);
});

test('a release that was rolled back is no take-over: the next one is asked for its certificate, too', async () => {
  const before = text();
  let asked = 0;
  const parity = {
    standsElsewhere: async () => false,
    refuse: async () => {
      if (asked++ === 0) return undefined;
      return { problems: [{ code: 'NODE_PARITY_MISSING', level: 'error', message: 'no', hint: '' }] } as const;
    },
  };
  let probed = 0;
  node.health = () => probed++ === 0;
  const { reconciler } = await node.start({ beneath: true }, { parity });
  expect(await reconciler.put(bundleOf('iptables'), true)).toMatchObject({ kind: 'rolled-back' });
  node.health = () => true;
  for (const options of [{ beneath: true }, { takeOver: true }]) {
    const next = await node.start(options, { parity });
    if ('takeOver' in options) node.kubeProxies = [];
    const outcome = await next.reconciler.put(bundleOf('iptables'), true);
    expect(outcome).toMatchObject({ kind: 'refused', refusal: { problems: [{ code: 'NODE_PARITY_MISSING' }] } });
  }
  expect(text()).toBe(before);
});

test('layout flat, which has the names of kube-proxy, does not go in front of it', async () => {
  const before = text();
  node.layout = 'flat';
  const { reconciler, journal } = await node.start({ beneath: true, takeOrder: true });
  const outcome = await reconciler.put(bundleOf('iptables'), true);
  expect(outcome).toMatchObject({ kind: 'refused', refusal: { problems: [{ code: 'NODE_CANNOT_ADOPT' }] } });
  expect(journal.active).toBeUndefined();
  expect(text()).toBe(before);
});
