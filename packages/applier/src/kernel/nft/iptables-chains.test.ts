import { expect, test } from 'vitest';
import { readChains } from './iptables-chains.ts';

const listed = `table ip filter {
	chain SLUICE-A {
	}
	chain FORWARD {
		type filter hook forward priority filter; policy accept;
	}
}
table ip nat {
	chain SLUICE-B {
	}
}
`;

test('reads the chains of one table', () => {
  expect(readChains(listed, 'ip filter')).toEqual(['SLUICE-A', 'FORWARD']);
  expect(readChains(listed, 'ip nat')).toEqual(['SLUICE-B']);
  expect(readChains(listed, 'ip mangle')).toEqual([]);
});
