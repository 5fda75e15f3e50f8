import { addressOfEndpoint, modeFacts } from '@sluice/netfilter';
import type { DeclaredConnection, ExpectedOutcome } from './connection.ts';
import { factOf } from '../bundle/node.ts';
import type { Branch } from '../flows/flow.ts';
import { provenModes } from './planes.ts';

/** The outcome that a Service's declaration demands of a node. */
export function expectedOf(connection: DeclaredConnection): ExpectedOutcome {
  const outcome = demandedOf(connection);
  const { node, family, source } = connection;
  if (outcome.kind !== 'endpoints' || source.in === undefined) return outcome;
  // A packet from outside to an endpoint on the node's own address is delivered: it never leaves, where it would be masqueraded.
  const own = factOf(node, family, 'address') ?? '';
  const isOwn = ({ to = '' }: Branch): boolean => to.includes(own) && addressOfEndpoint(to) === own;
  if (!outcome.branches.some(isOwn)) return outcome;
  return { ...outcome, branches: outcome.branches.map((one) => (isOwn(one) ? { ...one, masquerade: false } : one)) };
}

function demandedOf(connection: DeclaredConnection): ExpectedOutcome {
  const { mode } = connection.node.profile;
  if (connection.claim.role === 'health-check')
    return { kind: modeFacts[mode].healthChecks.areAccepted ? 'accept' : 'pass' };
  return provenModes[mode].expected(connection);
}
