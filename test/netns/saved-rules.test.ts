// @module-tag test
import { switches } from '@sluice/netfilter';
import { expect, test } from 'vitest';
import { node, withNode } from './node-of-test.ts';
import { needBackend } from './privileges.ts';

/** Rules that another tool saved while a release was finishing, and restores at boot: docs/threats.md, "Rules that others save". */

withNode();

const saved = `*nat
:SLUICE-SERVICES - [0:0]
-A SLUICE-SERVICES -m set --match-set ${switches.nat} src -j RETURN
COMMIT
*filter
:SLUICE-FORWARD - [0:0]
-A SLUICE-FORWARD -m set --match-set ${switches.filter} src -j RETURN
COMMIT
`;

test.for(['nft', 'legacy'] as const)(
  'on %s are restored where both sets are created first, as the page says',
  async (backend, context) => {
    needBackend(context, backend);
    const restore = [`iptables-${backend}-restore`, '--noflush'];
    await expect(node.tool(restore, saved)).rejects.toThrow(switches.nat);
    for (const set of Object.values(switches))
      await node.tool(['ipset', '-exist', 'create', set, 'list:set', 'timeout', '30']);
    await node.tool(restore, saved);
    expect(await node.rules(backend)).toContain(switches.nat);
  },
);
