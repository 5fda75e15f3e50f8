import { expect, test } from 'vitest';
import { isUnitName } from './move.ts';

test.each([
  ['kube-proxy.service', true],
  ['../../etc/passwd.service', false],
  ['a b.service', false],
  ['-x.service', false],
  ['kube-proxy.timer', false],
])('%s is the name of a unit: %s', (name, is) => expect(isUnitName(name)).toBe(is));
