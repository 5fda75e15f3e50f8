import { afterEach, beforeEach, expect, test } from 'vitest';
import { sampleBundle } from '../../testing/bundle.fixture.ts';
import { type Scene, scene } from '../../testing/scene.fixture.ts';

let node: Scene;
let seen: string[];

/** Records when the tables are read, and when the switch sends packets to the new rules. */
function watched(rules?: string): void {
  node = scene(rules === undefined ? {} : { rules: { ipv4: rules } });
  node.layout = 'tree';
  seen = [];
  const observe = node.kernel.observe.bind(node.kernel);
  node.kernel.observe = (...asked) => (seen.push('reads'), observe(...asked));
  const on = node.kernel.switch.on.bind(node.kernel.switch);
  node.kernel.switch.on = (seconds) => (seen.push('switch'), on(seconds));
  const apply = node.kernel.apply.bind(node.kernel);
  node.kernel.apply = (step) => (seen.push('step'), apply(step));
}

beforeEach(() => watched());
afterEach(() => node.end());

/** What happens between the first step of a release and the time when packets meet it and it is verified, without repeats. */
const order = (): readonly string[] => {
  const from = seen.indexOf('step');
  const to = Math.max(seen.indexOf('switch'), seen.indexOf('reads', from));
  return seen.slice(from, to + 1).filter((one, at, all) => one !== all[at - 1]);
};

const bundle = (services: Readonly<Record<string, readonly number[]>>) =>
  sampleBundle({ services, families: ['ipv4', 'ipv6'] });

test('on a node that served no Service the tables are read once packets meet the rules, later before that', async () => {
  const { reconciler } = await node.start();
  expect((await reconciler.put(bundle({ 'shop/web': [1, 2] }), false)).kind).toBe('confirmed');
  expect(order()).toEqual(['step', 'switch', 'reads']);
  seen = [];
  // So many chains that the tables are read whole.
  const many = Object.fromEntries(Array.from({ length: 40 }, (_, at) => [`shop/web-${at}`, [at + 1]]));
  expect((await reconciler.put(bundle(many), false)).kind).toBe('confirmed');
  expect(order()).toEqual(['step', 'reads', 'switch']);
});

test('beside rules of kube-proxy the tables are read first: its Services are served until then', async () => {
  watched(
    '*nat\n:KUBE-SERVICES - [0:0]\n:KUBE-SVC-AAAAAAAAAAAAAAAA - [0:0]\n-A KUBE-SERVICES -j KUBE-SVC-AAAAAAAAAAAAAAAA\nCOMMIT\n',
  );
  const { reconciler } = await node.start();
  expect((await reconciler.put(bundle({ 'shop/web': [1, 2] }), false)).kind).toBe('confirmed');
  expect(order()).toEqual(['step', 'reads', 'switch']);
});

test('the same where a kube-proxy runs whose rules are not among those read, as in the other rule store', async () => {
  node.kubeProxies = [42];
  const { reconciler } = await node.start();
  expect((await reconciler.put(bundle({ 'shop/web': [1, 2] }), false)).kind).toBe('confirmed');
  expect(order()).toEqual(['step', 'reads', 'switch']);
});

test('the same in front of a kube-proxy that is to stay beneath, also while it starts again', async () => {
  const { reconciler } = await node.start({ beneath: true });
  expect((await reconciler.put(bundle({ 'shop/web': [1, 2] }), false)).kind).toBe('confirmed');
  expect(order()).toEqual(['step', 'reads', 'switch']);
});

test('a kernel that lacks a rule which it took is found, and nothing is left of the first release', async () => {
  const before = [node.kernel.save('ipv4'), node.kernel.save('ipv6')];
  const apply = node.kernel.apply.bind(node.kernel);
  node.kernel.apply = (step) =>
    apply(
      step.kind === 'restore-table' ? { ...step, text: step.text.replace(/^.* -j DNAT .*10\.244\..*\n/m, '') } : step,
    );
  const { reconciler, journal } = await node.start();
  const outcome = await reconciler.put(bundle({ 'shop/web': [1, 2] }), false);
  expect(outcome).toMatchObject({
    kind: 'rolled-back',
    because: expect.stringMatching(/^the kernel does not hold what was loaded: ipv4 nat/),
  });
  expect(seen.filter((one) => one === 'switch')).toHaveLength(1);
  expect([node.kernel.save('ipv4'), node.kernel.save('ipv6')]).toEqual(before);
  expect(await node.kernel.switch.look()).toBeUndefined();
  expect(journal.active?.number).toBe(0);
});
