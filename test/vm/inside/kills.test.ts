// @module-tag all
import { join } from 'node:path';
import { atTier, reaches } from '@sluice/testing';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { podAddresses, Shop, type ShopService, shopBundle } from './shop.ts';

/** `kill -9` of the real `sluiced` in mode ipvs, at each of its steps: traffic never stops, and the next run ends on the new release. */

let shop: Shop;
beforeAll(async () => {
  shop = await Shop.open();
  await shop.node.run(['sh', '-c', setTraps(join(shop.directory, 'real'))]);
}, 240_000);
afterAll(() => shop[Symbol.asyncDispose]());

const web = (...pods: readonly (keyof typeof podAddresses)[]): ShopService => ({
  name: 'web',
  address: '10.96.0.10',
  port: 80,
  protocol: 'tcp',
  attributes: '-s rr',
  real: Object.fromEntries(pods.map((pod) => [`${podAddresses[pod]}:8080`, 1])),
});
const cart: ShopService = { ...web('c'), name: 'cart', address: '10.96.0.30', protocol: 'udp' };
const outRule =
  '*filter\n-A KUBE-IPVS-OUT-FILTER -s 10.96.0.30 -m ipvs --vaddr 10.96.0.30 --vproto udp --vport 80 -j DROP\nCOMMIT\n';

/** A change between them, in either direction, has every kind of step, both to add and to remove; endpoint b serves in both. */
const releases = {
  one: shopBundle([web('a', 'b')]),
  two: new Map([
    ...shopBundle([web('b', 'c'), cart]),
    ['profiles/default/services/shop/cart.iptables', outRule] as const,
  ]),
};

/**
 * Each tool is replaced by a script that counts the calls that change something, in the node's own /run: a rehearsal has another /run
 * and is not counted. At the chosen call it kills its caller, before the tool runs or after.
 */
const trap = (real: string): string => `#!/bin/sh
name=\${0##*/}
case "$name $*" in
  *tables-nft-restore*|"ipset restore"*|"ipvsadm -R"*|"ip -batch"*) ;;
  *) exec "${real}/$name" "$@" ;;
esac
[ -e /run/trap-at ] || exec "${real}/$name" "$@"
n=$(($(cat /run/trap-count) + 1))
echo $n > /run/trap-count
read -r at when < /run/trap-at
[ $n = "$at" ] || exec "${real}/$name" "$@"
[ "$when" = before ] || "${real}/$name" "$@"
kill -9 $PPID
`;
const setTraps = (real: string): string => `
set -e
mkdir ${real}
cat > /run/trap <<'END'
${trap(real)}END
chmod 755 /run/trap
for name in ipset ipvsadm ip xtables-nft-multi; do
  file=$(readlink -f "$(command -v $name)")
  cp "$file" ${real}/$name
  mount --bind /run/trap "$file"
done
for tool in iptables ip6tables; do
  for verb in '' -save -restore; do ln -s xtables-nft-multi ${real}/$tool-nft$verb; done
done`;

type ReleaseName = keyof typeof releases;
type Moment = readonly [at: number, when: 'before' | 'after'];
const never: Moment = [0, 'before'];
const done = { exitCode: 0, stderr: '' };
/** The exit code of `Host.exec` for a program that a signal ended. */
const killed = -1;

interface Applied {
  readonly exitCode: number;
  readonly stderr: string;
  readonly calls: number;
}

/** Applies a release with a trap set. @returns how it ended, its errors, and the number of calls that changed something */
async function apply(to: ReleaseName, [at, when]: Moment): Promise<Applied> {
  await shop.node.run(['sh', '-c', `echo 0 > /run/trap-count; echo ${at} ${when} > /run/trap-at`]);
  const { exitCode, stderr } = await shop.apply(releases[to]);
  return { exitCode, stderr, calls: Number(await shop.node.run(['cat', '/run/trap-count'])) };
}

/** The state of the kernel, except real servers that drain. */
async function state(): Promise<readonly string[]> {
  const asked = 'ipvsadm -S -n; ipset save | sort; ip -br addr; iptables-nft-save | sed -n "s/^-A/-A/p"';
  return (await shop.node.run(['sh', '-c', asked])).split('\n').filter((line) => !line.endsWith('-w 0'));
}

test('killed at each step forth and back, it keeps serving and the next run ends on the desired state', {
  timeout: atTier({ quick: 600_000, soak: 3_600_000 }),
}, async () => {
  expect(await apply('one', never)).toMatchObject(done);
  const there = await apply('two', never);
  expect(there).toMatchObject(done);
  const two = await state();
  const back = await apply('one', never);
  expect(back).toMatchObject(done);
  const good = { one: await state(), two };
  expect(good.one).not.toEqual(good.two);
  const steps = { two: there.calls, one: back.calls };
  let active: ReleaseName = 'one';
  let fired = 0;
  const kills = killsOf(steps);
  for (const [to, [at, when]] of kills) {
    if (active === to) await apply(to === 'one' ? 'two' : 'one', never);
    const ended = await apply(to, [at, when]);
    // Draining endpoints make the two directions differ by a step, so that the last one may not occur.
    const died = ended.calls >= at;
    expect(ended.exitCode, `${to} ${at} ${when}`).toBe(died ? killed : 0);
    fired += Number(died);
    for (const answer of await shop.ask(web(), 4)) expect(['a', 'b', 'c'], `${to} ${at} ${when}`).toContain(answer);
    expect(await apply(to, never)).toMatchObject(done);
    expect(await state(), `${to} ${at} ${when}`).toEqual(good[to]);
    active = to;
  }
  expect(fired).toBeGreaterThanOrEqual(kills.length * 0.7);
  process.stdout.write(`guest: killed ${fired} times, at ${steps.two} steps there and ${steps.one} back\n`);
});

/** In a soak before and after each step of both directions; otherwise in the middle of the first. */
function killsOf(steps: Readonly<Record<ReleaseName, number>>): readonly (readonly [ReleaseName, Moment])[] {
  const all = Array.from({ length: Math.max(steps.one, steps.two) }, (_, step) =>
    (['before', 'after'] as const).flatMap((when) =>
      (['two', 'one'] as const).map((to) => [to, [step + 1, when]] as const),
    ),
  ).flat();
  const there = all.filter(([to, [at]]) => at <= steps[to]);
  if (reaches('soak')) return there;
  return there.filter(([to, [at, when]]) => to === 'two' && when === 'after' && at === Math.ceil(steps.two / 2));
}
