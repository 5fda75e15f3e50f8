import { sampleBundle, writeBundle } from '../../packages/applier/src/testing/bundle.fixture.ts';
import type { Expected, Seen } from './judge.ts';
import { FaultPlace, type Kind, type Template } from './place.ts';
import { programPoints } from './points.ts';

/** One thing that `sluiced` does, from a known state of the node on. */
export interface Scenario {
  readonly name: string;
  readonly from: Template | undefined;
  readonly before: Seen;
  readonly config: string;
  readonly args: readonly string[];
  /** The programs that packets may meet on the way, by name. */
  readonly settled: ReadonlyMap<string, Seen>;
  /** Those of them that it may end on. */
  readonly ends: readonly string[];
  readonly whole: Expected['whole'];
}

/** One Service, with other endpoints, with a further Service, with both, and with one that has lost its only endpoint. */
const bundles = {
  one: { 'shop/web': [1, 2] },
  moved: { 'shop/web': [2, 3] },
  more: { 'shop/web': [1, 2], 'shop/cart': [50] },
  both: { 'shop/web': [2, 3], 'shop/cart': [50] },
  off: { 'shop/web': [1, 2], 'shop/cart': [] },
} as const;

/** Everything that must hold under faults: what a node does from its first rule to its last. */
export async function makeScenarios(place: FaultPlace, { backend, layout }: Kind): Promise<readonly Scenario[]> {
  const path = (name: string): string => `${place.directory}/bundles/${name}`;
  for (const [name, services] of Object.entries(bundles))
    writeBundle(path(name), sampleBundle({ services, families: ['ipv4', 'ipv6'] }));
  const config = place.config('plain');
  // Bad as soon as the further Service is in the kernel.
  const isAbsent = `! /usr/sbin/xtables-${backend}-multi iptables-${backend}-save | grep -q 10.96.0.12`;
  const failing = place.config('failing', `probes: [{name: cart, exec: [/bin/sh, -c, "${isAbsent}"], attempts: 1}]`);
  const apply = (name: string): readonly string[] => ['apply', path(name)];
  const none = await place.bare();
  const one = await place.keep(undefined, config, apply('one'));
  const more = await place.keep(one.template, config, apply('more'));
  const moved = await place.keep(one.template, config, apply('moved'));
  const both = await place.keep(one.template, config, apply('both'));
  const off = await place.keep(more.template, config, apply('off'));
  // A release that is taken back leaves the endpoints that came with it.
  const kept = await place.keep(one.template, failing, apply('both'), undefined, '4');
  const texts = {
    none,
    one: one.seen,
    more: more.seen,
    moved: moved.seen,
    both: both.seen,
    kept: kept.seen,
    off: off.seen,
  };
  const seen = new Map(Object.entries(texts));
  const between = (...names: readonly string[]): Pick<Scenario, 'settled' | 'ends'> => ({
    settled: new Map([...seen].filter(([name]) => names.includes(name))),
    ends: names,
  });
  const change: Omit<Scenario, 'name' | 'args'> = {
    from: one.template,
    before: one.seen,
    config,
    ...between('one', 'more'),
    whole: layout === 'tree' ? 'node' : 'table',
  };
  const cut = await cutShort(place, one.template, config, apply('more'));
  return [
    { ...change, name: 'first', from: undefined, before: none, args: apply('one'), ...between('none', 'one') },
    { ...change, name: 'apply', args: apply('more') },
    {
      ...change,
      name: 'update',
      args: apply('moved'),
      ...between('one', 'moved'),
      whole: layout === 'tree' ? 'family' : 'table',
    },
    {
      ...change,
      name: 'apply-and-update',
      args: apply('both'),
      ...between('one', 'kept', 'both'),
      whole: layout === 'tree' ? 'family' : 'table',
    },
    {
      ...change,
      name: 'last-endpoint',
      from: more.template,
      before: more.seen,
      args: apply('off'),
      ...between('more', 'off'),
      whole: layout === 'tree' ? 'family' : 'table',
    },
    {
      ...change,
      name: 'first-endpoint',
      from: off.template,
      before: off.seen,
      args: apply('more'),
      ...between('more', 'off'),
      whole: layout === 'tree' ? 'family' : 'table',
    },
    { ...change, name: 'trial-fails', config: failing, args: apply('more'), ends: ['one'] },
    { ...change, name: 'rollback', from: more.template, before: more.seen, args: ['rollback', '1'], whole: 'table' },
    { ...change, name: 'recover-open', from: cut.open, args: ['boot'], ends: ['one'] },
    { ...change, name: 'recover-committed', from: cut.committed, args: ['boot'], ends: ['more'] },
    { ...change, name: 'cleanup', args: ['cleanup'], ...between('none', 'one'), whole: 'table' },
  ];
}

/** The node as a process left it that ended on trial, and as one left it that ended right behind the commit token. */
async function cutShort(
  place: FaultPlace,
  from: Template,
  config: string,
  args: readonly string[],
): Promise<{ readonly open: Template; readonly committed: Template }> {
  const { program } = await place.record(from, config, args);
  const points = programPoints(program, place.state);
  const writes = points.filter(({ call }) => call === 'pwrite64');
  const token = writes.at(-2);
  const synced = token && points[points.indexOf(token) + 1];
  if (!token || synced?.call !== 'fsync') throw new Error('the commit token was not found');
  const [open, committed] = [await place.keep(from, config, args, token), await place.keep(from, config, args, synced)];
  return { open: open.template, committed: committed.template };
}
