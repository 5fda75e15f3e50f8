import { expect, test } from 'vitest';
import type { Branch } from '../flows/flow.ts';
import { visible } from './family.ts';

const to = (address: string, share = 1): Branch => ({ verdict: 'dnat', to: address, masquerade: false, share });
const [one, two] = [to('10.244.1.5:80'), to('10.244.2.7:80', 0.5)];

test.each<[string, readonly Branch[], string, string | undefined]>([
  ['of one endpoint nothing shows', [one], '600 s', undefined],
  ['of two endpoints it shows', [to('10.244.1.5:80', 0.5), two], '600 s', '600 s'],
  [
    'of clients that go elsewhere when they come again it shows',
    [one],
    '600 s to dnat 10.244.9.9:80 1.0000000',
    'same',
  ],
])('session affinity: %s', (_title, branches, affinity, shown) => {
  const seen = visible({ key: '', branches, affinity });
  expect(seen.affinity).toBe(shown === 'same' ? affinity : shown);
});

test('a rule that accepts what no later one drops shows nothing', () => {
  const accepted: Branch = { verdict: 'accept', masquerade: false, share: 1 };
  expect(visible({ key: '', branches: [accepted] }).branches).toMatchObject([{ verdict: 'pass' }]);
});
