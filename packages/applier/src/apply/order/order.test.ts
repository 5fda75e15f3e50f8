import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { sampleBundle } from '../../testing/bundle.fixture.ts';
import { type Scene, scene } from '../../testing/scene.fixture.ts';
import type { OrderFindings } from './order.ts';
import { printTaking, printUnread } from '../../commands/run/alarms.ts';

let node: Scene;
beforeEach(() => {
  node = scene();
});
afterEach(() => node.end());

/** `shop/web` is 10.96.0.11, `shop/cart` 10.96.0.12, `shop/empty`, without endpoints, 10.96.0.13. */
const bundle = sampleBundle({ services: { 'shop/web': [1, 2], 'shop/cart': [50], 'shop/empty': [] } });

/** A node that runs the bundle, with foreign rules. @returns the findings of a comparison, and its steps */
async function judged(
  text: string,
  takeOrder = false,
): Promise<{ readonly order: OrderFindings; readonly steps: unknown }> {
  let order: OrderFindings | undefined;
  const report = (event: string, details: object): void => {
    if (event === 'order') order = details as OrderFindings;
  };
  const { reconciler } = await node.start({ takeOrder }, { report });
  await reconciler.put(bundle, false);
  node.kernel.load('ipv4', text);
  const steps = await reconciler.repair();
  return { order: order!, steps };
}

const nat = (...lines: readonly string[]): string => `*nat\n${lines.join('\n')}\nCOMMIT\n`;
const filter = (...lines: readonly string[]): string => `*filter\n${lines.join('\n')}\nCOMMIT\n`;

describe.each(['tree', 'flat'] as const)('layout %s', (layout) => {
  beforeEach(() => void (node.layout = layout));

  test.each([
    ['a rule for one VIP', nat('-I PREROUTING 1 -d 10.96.0.11/32 -j ACCEPT'), ['shop/web']],
    ['the same for what the node sends', nat('-I OUTPUT 1 -d 10.96.0.12/32 -j ACCEPT'), ['shop/cart']],
    ['a rule for everything', nat('-I PREROUTING 1 -j ACCEPT'), ['shop/cart', 'shop/web']],
    ['a port', nat('-I PREROUTING 1 -p tcp -m tcp --dport 80 -j ACCEPT'), ['shop/cart', 'shop/web']],
    [
      'clients of one network by one interface',
      nat('-I PREROUTING 1 -s 10.9.0.0/16 -i cali+ -j ACCEPT'),
      ['shop/cart', 'shop/web'],
    ],
    [
      'several ports, which no rule of ours matches',
      nat('-I PREROUTING 1 -p tcp -m multiport --dports 80,443 -j ACCEPT'),
      ['shop/cart', 'shop/web'],
    ],
    [
      'all clients except one',
      nat(':fw - [0:0]', '-A fw ! -s 10.9.0.5/32 -d 10.96.0.11/32 -j ACCEPT', '-I PREROUTING 1 -j fw'),
      ['shop/web'],
    ],
    [
      'a range of clients',
      nat('-I PREROUTING 1 -m iprange --src-range 10.9.0.5-10.9.0.9 -j ACCEPT'),
      ['shop/cart', 'shop/web'],
    ],
    [
      'another destination',
      nat('-I PREROUTING 1 -d 10.96.0.11/32 -p tcp -m tcp --dport 80 -j DNAT --to-destination 10.9.9.9:80'),
      ['shop/web'],
    ],
    [
      'a foreign chain of any name',
      nat(
        ':ufw-before - [0:0]',
        ':DOCKER - [0:0]',
        '-A ufw-before -j DOCKER',
        '-A DOCKER -d 10.96.0.12/32 -j ACCEPT',
        '-I PREROUTING 1 -j ufw-before',
      ),
      ['shop/cart'],
    ],
  ])('%s before our jumps is told with its Services', async (_title, text, services) => {
    const { order, steps } = await judged(text);
    expect(order.unread).toEqual([]);
    expect(order.taking.map((one) => one.services.map((name) => name.replace(/:.*/, '')))).toEqual([services]);
    expect(steps, 'nothing is moved').toBe(0);
    expect(printTaking(order)).toMatch(/^Foreign rules before our jumps take packets of Services: iptables -t \w+ -A /);
  });

  test.each([
    ['a rule after our jumps', nat('-A PREROUTING -j ACCEPT')],
    ['a rule for another address', nat('-I PREROUTING 1 -d 192.0.2.99/32 -j ACCEPT')],
    ['a rule for other ports', nat('-I PREROUTING 1 -p tcp -m multiport --dports 22,8000:9000 -j ACCEPT')],
    ['a rule for another port', nat('-I PREROUTING 1 -p tcp -m tcp --dport 22 -j ACCEPT')],
    ['a firewall, which drops in either place', filter('-I FORWARD 1 -s 203.0.113.0/24 -j DROP')],
    ['an ACCEPT before the refusal of a Service without endpoints', filter('-I OUTPUT 1 -d 10.96.0.0/12 -j ACCEPT')],
    ['established connections', filter('-I FORWARD 1 -m conntrack --ctstate RELATED,ESTABLISHED -j ACCEPT')],
    [
      'an outgoing interface of packets that do not match',
      filter('-I FORWARD 1 -o docker0 -m conntrack --ctstate RELATED,ESTABLISHED -j ACCEPT'),
    ],
    [
      'a chain that leads back to itself',
      nat(
        ':DOCKER - [0:0]',
        '-A DOCKER -i docker0 -j RETURN',
        '-I PREROUTING 1 -m addrtype --dst-type LOCAL -j DOCKER',
      ),
    ],
    [
      'a CNI plugin in insert mode',
      nat(
        ':cali-PREROUTING - [0:0]',
        '-A cali-PREROUTING -j ACCEPT',
        '-I PREROUTING 1 -m comment --comment "cali:6gwbT8clXdHdC1b1" -j cali-PREROUTING',
      ),
    ],
  ])('%s is in order', async (_title, text) => {
    expect(await judged(text)).toEqual({ order: { taking: [], unread: [] }, steps: 0 });
  });

  test.each([
    ['a match', nat('-I PREROUTING 1 -p tcp -m time --timestart 08:00:00 -j ACCEPT'), 'option --timestart of -m time'],
    ['a set of another program', nat('-I PREROUTING 1 -m set --match-set theirs src -j ACCEPT'), 'match-set theirs'],
    ['one in a chain', nat(':fw - [0:0]', '-A fw -m owner --uid-owner 0 -j ACCEPT', '-I OUTPUT 1 -j fw'), 'owner'],
    ['the outgoing interface', filter('-I FORWARD 1 -o docker0 -j ACCEPT'), 'depends on more than addresses'],
  ])('%s that cannot be read is a note', async (_title, text, because) => {
    const { order, steps } = await judged(text);
    expect([order.taking, steps]).toEqual([[], 0]);
    expect(printUnread(order)).toContain(because);
  });

  test('moves our jumps first with takeOver, and the foreign rules stay after them', async () => {
    const { order, steps } = await judged(
      nat(
        '-I PREROUTING 1 -d 10.96.0.11/32 -j ACCEPT',
        '-I PREROUTING 1 -d 192.0.2.99/32 -j ACCEPT',
        '-I OUTPUT 1 -j ACCEPT',
      ),
      true,
    );
    expect([order, steps]).toEqual([{ taking: [], unread: [] }, 1]);
    const rules = node.kernel
      .save('ipv4')
      .split('\n')
      .filter((line) => line.startsWith('-A PREROUTING'));
    expect(rules.map((line) => line.replace(/ -m comment.* -j/, ' -j'))).toEqual([
      `-A PREROUTING -j ${layout === 'tree' ? 'SLUICE' : 'KUBE'}-SERVICES`,
      '-A PREROUTING -d 192.0.2.99/32 -j ACCEPT',
      '-A PREROUTING -d 10.96.0.11/32 -j ACCEPT',
    ]);
    const { reconciler } = await node.start({ takeOrder: true });
    expect(await reconciler.repair()).toBe(0);
  });
});

test('reports a kube-proxy whose jumps are first, and moves ours before them with takeOver', async () => {
  node.layout = 'tree';
  const text = nat(
    ':KUBE-SERVICES - [0:0]',
    '-I PREROUTING 1 -m comment --comment "kubernetes service portals" -j KUBE-SERVICES',
  );
  const { order } = await judged(text);
  expect(printTaking(order)).toContain('-j KUBE-SERVICES (all Services of this kube-proxy)');
  const { reconciler } = await node.start({ takeOrder: true });
  expect([await reconciler.repair(), await reconciler.repair()]).toEqual([1, 0]);
});

test('samples very many frontends, and notes a rule that exceeds the budget', async () => {
  node.layout = 'tree';
  const services = Object.fromEntries(Array.from({ length: 2_000 }, (_, n) => [`shop/web-${n}`, [1 + (n % 200)]]));
  let order: OrderFindings | undefined;
  const { reconciler } = await node.start(
    {},
    { report: (event, details) => void (event === 'order' && (order = details as unknown as OrderFindings)) },
  );
  await reconciler.put(sampleBundle({ services }), false);
  const harmless = Array.from(
    { length: 30 },
    (_, n) => `-I PREROUTING 1 -s 10.8.${n}.0/24 -p tcp -m tcp --dport 22 -j ACCEPT`,
  );
  const marks = Array.from({ length: 30 }, (_, n) => `-I PREROUTING 1 -s 10.9.${n}.0/24 -j MARK --set-xmark 0x1/0x1`);
  node.kernel.load('ipv4', nat(...harmless, ...marks));
  await reconciler.repair();
  expect(order?.taking).toEqual([]);
  node.kernel.load('ipv4', nat('-I PREROUTING 40 -d 10.96.0.11/32 -j ACCEPT'));
  await reconciler.repair();
  expect(
    order?.taking.map(({ services: taken }) => taken),
    'one rule does not hide another',
  ).toEqual([['shop/web-0']]);
  expect(printUnread(order!)).toContain('too many packets would have to be traced');
});

test('names a few rules and Services in the alarm, and counts the rest', async () => {
  const many = Array.from(
    { length: 9 },
    (_, index) => `-I PREROUTING 1 -d 10.96.0.0/12 -p tcp -m tcp --dport 80 -s 10.8.${index}.0/24 -j ACCEPT`,
  );
  const { order } = await judged(nat(...many));
  expect(order.taking).toHaveLength(9);
  expect(printTaking(order)).toMatch(/ \(shop\/cart\S*, shop\/web\S*\), .* 4 more rules\. Remove them/);
});
