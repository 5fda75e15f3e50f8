import type { BundleTool } from '../family.ts';
import type { TableProgram } from '../link/program.ts';
import { readFrontend } from '../nftables/frontend.ts';
import { readNftLine } from '../nftables/read-line.ts';
import { printEndpoint } from '../rules/rule.ts';
import { linesOf } from './of-frontends.ts';
import type { ForwardingState } from './services.ts';

/** How a file of each tool opens the health-check node port of its Service; undefined: it does not. */
const portForms: Readonly<Record<BundleTool, RegExp | undefined>> = {
  iptables: /^-A KUBE-NODEPORTS .* --dport (\d{1,5}) -j ACCEPT$/m,
  ip6tables: /^-A KUBE-NODEPORTS .* --dport (\d{1,5}) -j ACCEPT$/m,
  ipset: /^add (?:KUBE|KUBE-6)-HEALTH-CHECK-NODE-PORT (\d{1,5})$/m,
  ipvs: undefined,
  nft: /^add element inet sluice health[46] \{ (\d{1,5}) \}$/m,
};

/**
 * The health-check node port that the file of a Service opens, 1 to 65535; undefined: none. Of its rules, not of its comments: keys for
 * endpoints may change these. Each file is searched as a whole, as it is read at each change of its bundle.
 */
export function healthCheckPortIn(tool: BundleTool, text: string): number | undefined {
  const port = Number(portForms[tool]?.exec(text)?.[1] ?? 0);
  return port >= 1 && port <= 65_535 ? port : undefined;
}

/**
 * Whether node ports are open on the node's own address alone, by a base file of the tables, or by a Service's virtual servers: where it is
 * that address alone, the profile has no list. Elements of mode nftables name none: there it is the default.
 */
export function opensOwnAddressAlone(tool: BundleTool, text: string): boolean {
  if (tool === 'ipvs') return /^-A (?:-t|-u|--sctp-service) \[?\$\{node\.address\}/m.test(text);
  return tool !== 'nft' && text.includes(' -d ${node.address} -j KUBE-NODEPORTS\n');
}

/**
 * The endpoints of one node in the file of a Service, each with the frontend or the chain whose packets from outside it serves, in the
 * spelling of `localChoicesOf`. Lines for the node begin with its guard.
 */
export function* localChoicesIn(tool: BundleTool, text: string, node: string): Generator<string> {
  const guard = `@node=${node} `;
  const own = text.split('\n').flatMap((line) => (line.startsWith(guard) ? [line.slice(guard.length)] : []));
  if (tool === 'nft') yield* tableChoices(own);
  else if (tool === 'ipvs') yield* serverChoicesIn(own);
  else if (tool !== 'ipset') yield* chainChoices(own, text);
}

function* tableChoices(lines: readonly string[]): Generator<string> {
  for (const line of lines) {
    const read = readNftLine(line);
    if ('error' in read) continue;
    for (const element of read.elements) if (element.kind === 'local') yield `${element.key} ${element.endpoint}`;
  }
}

function* serverChoicesIn(lines: readonly string[]): Generator<string> {
  for (const line of lines) {
    const [, frontend = '', to] = /^-a (?:-t|-u|--sctp-service) (\S+) -r (\S+) /.exec(line) ?? [];
    // A file has no addresses of the machine.
    if (to !== undefined) yield `${frontend.replace(/^\$\{.*\}/, '*')} ${to}`;
  }
}

function* chainChoices(lines: readonly string[], text: string): Generator<string> {
  const endpoints = new Map(
    [...text.matchAll(/^-A (KUBE-SEP-\S+) .* --to-destination (\S+)$/gm)].map(([, chain, to]) => [chain, to]),
  );
  for (const line of lines) {
    const [, frontend, chain] = /^-A KUBE-(SVL-\S+) .*-j (KUBE-SEP-\S+)$/.exec(line) ?? [];
    if (frontend !== undefined) yield `${frontend} ${endpoints.get(chain)}`;
  }
}

/** The same of the rules of a node, whichever data plane it has. */
export function localChoicesOf(state: ForwardingState): ReadonlySet<string> {
  return new Set([...choicesOfChains(state), ...choicesOfServers(state), ...choicesOfTable(state)]);
}

/** In either layout, where a chain may hold its endpoints itself or jump to a group. */
function* choicesOfChains({ families }: ForwardingState): Generator<string> {
  for (const { nat } of Object.values(families))
    for (const chain of nat.chains.keys()) {
      const [, frontend] = /^(?:KUBE|SLU)-(SVL-[^.]+)/.exec(chain) ?? [];
      if (frontend !== undefined) for (const to of destinations(chain, nat)) yield `${frontend} ${to}`;
    }
}

function* destinations(chain: string, table: TableProgram): Generator<string> {
  for (const rule of table.chains.get(chain) ?? []) {
    const [, to] = / --to-destination (\S+)$/.exec(rule) ?? [];
    if (to !== undefined) yield to;
    const [, next] = / -[jg] ((?:KUBE|SLU)-(?:SEP|GRP)-\S+)$/.exec(rule) ?? [];
    if (next !== undefined) yield* destinations(next, table);
  }
}

/** A weight of 0 means removed. */
function* choicesOfServers({ ipvs }: ForwardingState): Generator<string> {
  for (const { address, port, real } of ipvs?.virtualServers.values() ?? [])
    for (const one of real.values()) {
      if (one.weight === 0) continue;
      const to = printEndpoint(one.address, one.port);
      yield* [`${printEndpoint(address, port)} ${to}`, `*:${port} ${to}`];
    }
}

function* choicesOfTable(state: ForwardingState): Generator<string> {
  for (const [key, lines] of linesOf(state))
    for (const endpoint of readFrontend(key, lines).local) yield `${key} ${endpoint}`;
}
