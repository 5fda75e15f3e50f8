import fc from 'fast-check';
import { expect, test } from 'vitest';
import type { PageEndpoint } from './data.ts';
import { printServiceLine, readServiceLine } from './service-line.ts';
import { runs } from '@sluice/testing';

const address = fc.oneof(
  fc.ipV4().map((text) => `${text}:8080`),
  fc.integer({ min: 1, max: 0xffff }).map((n) => `[fd00::${n.toString(16)}]:8080`),
);

/** Endpoints of one port: equal shares in each family, or shares by weights. */
const port = fc
  .tuple(
    fc.constantFrom('80/TCP', '53/UDP', '443/TCP'),
    fc.uniqueArray(address, { maxLength: 5 }),
    fc.option(fc.integer({ min: 0, max: 200 }), { nil: undefined }),
    fc.boolean(),
  )
  .map(([name, texts, at, isWeighted]) =>
    texts.map((text): PageEndpoint => {
      const family = texts.filter((one) => one.startsWith('[') === text.startsWith('['));
      const sum = (family.length * (family.length + 1)) / 2;
      const share = isWeighted ? (family.indexOf(text) + 1) / sum : 1 / family.length;
      return { text, port: name, fate: 'same', before: share, after: share, ...(at === undefined ? {} : { at }) };
    }),
  );

const frontend = fc.record({
  kind: fc.constantFrom('cluster' as const, 'external' as const, 'load-balancer' as const, 'node-port' as const),
  text: fc.constantFrom('10.96.0.10:80', '[fd00:10:96::10]:443', '30080/TCP'),
  fate: fc.constant('same' as const),
});

test('a line is read as the Service that was printed, shares to four digits', () => {
  const service = fc.record({
    name: fc.constantFrom('shop/web', 'kube-system/dns'),
    frontends: fc.array(frontend, { maxLength: 3 }),
    endpoints: fc.uniqueArray(port, { maxLength: 3, selector: ([first]) => first?.port }).map((ports) => ports.flat()),
  });
  fc.assert(
    fc.property(service, (given) => {
      const read = readServiceLine(printServiceLine(given));
      const rounded = ({ before = 0, after = 0, ...rest }: PageEndpoint): object => ({
        ...rest,
        before: before.toFixed(3),
        after: after.toFixed(3),
      });
      expect({ ...read, endpoints: read.endpoints.map(rounded) }).toEqual({
        ...given,
        fate: 'same',
        effects: [],
        facts: [],
        endpoints: given.endpoints.map(rounded),
      });
    }),
    runs(500),
  );
});

test('an unchanged Service of five endpoints takes about a hundred bytes', () => {
  const endpoints = [1, 2, 3, 4, 5].map(
    (n): PageEndpoint => ({ text: `10.128.0.${n}:8080`, port: '80/TCP', fate: 'same', at: n, before: 0.2, after: 0.2 }),
  );
  expect(
    printServiceLine({
      name: 'ns-0/svc-0',
      frontends: [{ kind: 'cluster', text: '10.96.1.0:80', fate: 'same' }],
      endpoints,
    }),
  ).toBe(
    'ns-0/svc-0\tc10.96.1.0:80\t80/TCP 10.128.0.1:8080@1 10.128.0.2:8080@2 10.128.0.3:8080@3 10.128.0.4:8080@4 10.128.0.5:8080@5',
  );
});
