import { describe, expect, test } from 'vitest';
import { config, endpoint, profile, service, slice } from '../render/builders.fixture.ts';
import { LiveRender } from '../render/incremental/live-render.ts';
import type { Mode } from '@sluice/netfilter';
import { RemovalFinder } from './removal.ts';

const bound = { share: 0.5, least: 10 };
const serviceFiles = (files: ReadonlyMap<string, string> | undefined): number | undefined =>
  files && [...files.keys()].filter((path) => path.includes('/services/')).length;

describe.each(['iptables', 'ipvs', 'nftables'] as const)('in mode %s,', (mode: Mode) => {
  const ipvs = {
    scheduler: 'rr',
    excludeCIDRs: [],
    strictARP: false,
    timeouts: { tcp: 0, tcpFin: 0, udp: 0 },
  } as const;
  const virtual = mode === 'ipvs' ? { ipvs } : {};
  /** Twenty Services with these numbers of endpoints; undefined: it is not there. */
  function bundle(endpoints: (index: number) => number | undefined): ReadonlyMap<string, string> {
    const objects = Array.from({ length: 20 }, (_, index) => {
      const count = endpoints(index);
      if (count === undefined) return [];
      const addresses = Array.from({ length: count }, (_each, n) => endpoint(`10.244.${index}.${n + 1}`));
      return [
        service(`s${index}`, { clusterIP: `10.96.0.${index + 1}` }),
        slice(`s${index}`, { endpoints: addresses }),
      ];
    }).flat();
    const live = new LiveRender(config({ profiles: [profile('default', { mode, ...virtual })] }));
    const { files, errors } = live.render(new Map(objects.map((one, at) => [`${at}`, one])), () => undefined);
    expect(errors).toEqual([]);
    return files;
  }
  const find = (before: ReadonlyMap<string, string>, after: ReadonlyMap<string, string>) =>
    new RemovalFinder().find(before, after, bound);

  test('finds Services that are gone', () => {
    const all = bundle(() => 2);
    expect(
      find(
        all,
        bundle(() => undefined),
      ),
    ).toEqual({
      services: { lost: 20, of: 20 },
      endpoints: { lost: 40, of: 40 },
      kept: undefined,
    });
    expect(
      find(
        all,
        bundle((index) => (index < 10 ? 2 : undefined)),
      ),
      'half of them',
    ).toBeUndefined();
    expect(find(all, all)).toBeUndefined();
    expect(
      find(
        bundle(() => 0),
        bundle(() => undefined),
      ),
      'without endpoints',
    ).toBeUndefined();
  });

  test('finds Services without endpoints left, with their files before', () => {
    const all = bundle(() => 2);
    const emptied = bundle((index) => (index < 5 ? 1 : 0));
    const found = find(all, emptied);
    expect(found).toMatchObject({ services: { lost: 15, of: 20 }, endpoints: { lost: 30, of: 40 } });
    expect(serviceFiles(found?.kept)).toBe(mode === 'ipvs' ? 30 : 15);
    for (const [path, text] of found?.kept ?? []) expect(text).toBe(all.get(path));
    expect(
      find(
        all,
        bundle(() => 1),
      ),
      'each keeps one',
    ).toBeUndefined();
  });

  test('keeps all files where Services are gone and others are without endpoints', () => {
    const all = bundle(() => 2);
    expect(
      find(
        all,
        bundle((index) => (index < 12 ? undefined : 0)),
      )?.kept,
    ).toBeUndefined();
    const mixed = find(
      all,
      bundle((index) => (index < 4 ? undefined : index < 15 ? 0 : 2)),
    );
    expect(serviceFiles(mixed?.kept)).toBe(mode === 'ipvs' ? 22 : 11);
  });

  test('is no removal if a profile has another name', () => {
    const all = bundle(() => 2);
    const renamed = new Map(
      [...all].map(([path, text]) => [path.replace('profiles/default/', 'profiles/main/'), text]),
    );
    expect(find(all, renamed)).toBeUndefined();
  });
});

test('a file that cannot be read counts as one endpoint', () => {
  const files = new Map(Array.from({ length: 12 }, (_, n) => [`profiles/p/services/shop/s${n}.iptables`, 'garbage\n']));
  expect(new RemovalFinder().find(files, new Map(), bound)).toMatchObject({ services: { lost: 12, of: 12 } });
});
