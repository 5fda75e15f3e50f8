import { expect, test } from 'vitest';
import { bounds } from './bounds.ts';
import { TableReader } from './tables.ts';

const read = (text: string) => {
  const reader = new TableReader();
  // Parts end anywhere.
  for (let at = 0; at < text.length; at += 1_000_003) reader.take(text.slice(at, at + 1_000_003));
  return reader.done();
};

test('keeps rules by table and chain, without chains of single Services', () => {
  const text = `*filter\n:FORWARD DROP [0:0]\n:DOCKER - [0:0]\n:KUBE-SVC-ABC - [0:0]\n-A FORWARD -j DOCKER\n-A KUBE-SVC-ABC -j DROP\nCOMMIT\n`;
  expect(read(text)).toEqual(
    new Map([
      [
        'filter',
        new Map([
          ['FORWARD', { policy: 'DROP', rules: ['-A FORWARD -j DOCKER'] }],
          ['DOCKER', { policy: '-', rules: [] }],
        ]),
      ],
    ]),
  );
});

test('marks chains that have too many rules, alone or together', () => {
  const rules = (chain: string, count: number): string => `-A ${chain} -j LOG\n`.repeat(count);
  const names = Array.from({ length: 30 }, (_, at) => `C${at}`);
  const heads = names.map((name) => `:${name} - [0:0]\n`).join('');
  const filter = read(
    `*filter\n:INPUT ACCEPT [0:0]\n:FORWARD ACCEPT [0:0]\n${heads}${rules('INPUT', bounds.rulesPerChain + 1)}${names.map((name) => rules(name, bounds.rulesPerChain)).join('')}${rules('FORWARD', 1)}COMMIT\n*nat\n:OUTPUT ACCEPT [0:0]\n:A - [0:0]\n`,
  );
  const chains = filter.get('filter');
  expect(chains?.get('INPUT')).toMatchObject({ isCut: true });
  expect(chains?.get('C0')).not.toHaveProperty('isCut');
  expect(chains?.get('FORWARD')).toEqual({ policy: 'ACCEPT', rules: [], isCut: true });
  const kept = [...(chains?.values() ?? [])].reduce((sum, chain) => sum + chain.rules.length, 0);
  expect(kept).toBeLessThanOrEqual(bounds.rules);
  expect([...(filter.get('nat')?.keys() ?? [])]).toEqual(['OUTPUT']);
});
