import type { Flow } from '../rollout/ports.ts';
import type { Run } from './run.ts';

/**
 * Forgets the connections of some flows: all of UDP, and of TCP those that have not been answered yet. One call per flow; a call
 * that finds nothing ends with 1 and is no failure.
 * @param conntrack the tool
 */
export async function forgetFlows(flows: readonly Flow[], conntrack: string, run: Run): Promise<void> {
  for (const flow of flows) {
    if (flow.protocol === 'sctp') continue;
    await run({ file: conntrack, args: argumentsFor(flow) });
  }
}

function argumentsFor({ family, protocol, address, port, endpoint }: Flow): readonly string[] {
  const asked = ['-D', '-f', family, '-p', protocol, '--orig-port-dst', String(port)];
  if (address !== undefined) asked.push('--orig-dst', address);
  if (protocol === 'tcp') asked.push('--state', 'SYN_SENT');
  if (endpoint !== undefined) return [...asked, ...replyFrom(endpoint)];
  // Not translated: the answer would come from the address that was asked.
  return address === undefined ? asked : [...asked, '--reply-src', address];
}

function replyFrom(endpoint: string): readonly string[] {
  const colon = endpoint.lastIndexOf(':');
  const address = endpoint.slice(0, colon).replace(/^\[(.*)\]$/, '$1');
  return ['--reply-src', address, '--reply-port-src', endpoint.slice(colon + 1)];
}
