// @module-tag test
import { compareText } from '@sluice/netfilter';
import { atTier, randomOf, seed } from '@sluice/testing';
import { afterAll, describe, expect, test } from 'vitest';
import { compareModesAndLayouts } from '../../packages/review/src/prove/equivalence.ts';

import { isOfAll, mayBeUnseen, refusedIn } from './published.ts';
import { renderIn, settings } from './random-bundle.ts';

/** Random clusters under each setting, with a node in each mode: every two modes differ as published, and the renderer reports where. */

const clusters = atTier({ quick: 3, test: 12, all: 80 });
const met = new Map<string, number>();

describe.each(Array.from({ length: clusters }, (_, index) => ({ index, setting: settings[index % settings.length]! })))(
  'cluster $index, $setting.title',
  ({ index, setting }) => {
    test('every two modes differ as published', { timeout: 120_000 }, () => {
      const { files, problems } = renderIn(setting, randomOf(seed + index));
      const compared = compareModesAndLayouts(files);
      const pairs = compared.filter(({ kind }) => kind === 'profiles').map(({ between }) => between.join(' '));
      expect(new Set(pairs)).toEqual(new Set(['iptables ipvs', 'iptables nftables', 'nftables ipvs']));
      expect(compared.flatMap(({ between, unexplained }) => unexplained.map((row) => ({ between, row })))).toEqual([]);
      const reported = problems
        .filter(({ level }) => level === 'differs')
        .map(({ object = '', message, code }) => {
          const of = object.startsWith('Profile ') ? '*' : object.replace('Service ', '');
          return `${of} ${/^Mode (\w+)/.exec(message)?.[1]} ${code}`;
        });
      const found = compared
        .filter(({ between, profile }) => between[0] === 'iptables' && profile === between[1])
        .flatMap(({ between, differences }) => differences.map((one) => ({ mode: between[1], ...one })))
        .filter(({ code }) => code.startsWith('DIFFERS_'))
        .flatMap(({ mode, code, services: of }) => (isOfAll(code) ? ['*'] : of).map((one) => `${one} ${mode} ${code}`));
      for (const { between, differences } of compared)
        for (const { code, flows } of differences) {
          const key = `${between.join(', ')}: ${code}`;
          met.set(key, (met.get(key) ?? 0) + flows);
        }
      const refused = refusedIn(compared);
      const isClosed = /loopback|localhost/.test(setting.title);
      const seen = reported.filter((line) => found.includes(line) || !mayBeUnseen(line, refused, isClosed));
      expect([...new Set(found)].toSorted(compareText)).toEqual(seen.toSorted(compareText));
    });
  },
);

afterAll(() =>
  console.log(
    [...met]
      .map(([key, flows]) => `${key}: ${flows} flows`)
      .toSorted(compareText)
      .join('\n'),
  ),
);
