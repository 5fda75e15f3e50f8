import { type BundleFiles, serviceFile } from '@sluice/bundle';
import { type Family, type FamilyProgram, type IpvsState, printEndpoint, type TableProgram } from '@sluice/netfilter';
import { type HealthService, profileOf } from './declared.ts';

/** The rules of the active generation that lead to endpoints. */
export interface ActiveRules {
  readonly families: { readonly [F in Family]?: FamilyProgram };
  readonly ipvs?: IpvsState;
}

const tools = ['iptables', 'ip6tables', 'ipvs'] as const;

/**
 * Whether the active rules lead packets from outside to an endpoint on this node that a Service has in a newer bundle: a node must not ask
 * for packets that it drops. Early endpoint sync may reach some Services and not others, such as one whose port changes too.
 */
export function servedBy(
  rules: ActiveRules,
  files: BundleFiles,
  node: string,
): (service: Pick<HealthService, 'namespace' | 'name'>) => boolean {
  let profile: string | undefined;
  let active: ReadonlySet<string> | undefined;
  return ({ namespace, name }) => {
    // Only now: few Services are asked about, and reading YAML takes milliseconds.
    profile ??= profileOf(files, node) ?? '';
    active ??= new Set([...localChoices(rules), ...serverChoices(rules)]);
    const fileOf = (tool: (typeof tools)[number]): string => serviceFile(profile ?? '', namespace, name, tool);
    const texts = tools.map((tool) => files.get(fileOf(tool)) ?? '');
    return texts.some((text) => [...choicesIn(text, node)].some((choice) => active?.has(choice)));
  };
}

const chainLine = /^@node=(\S+) -A KUBE-(SVL-\S+) .*-j (KUBE-SEP-\S+)$/gm;
const realLine = /^@node=(\S+) -a (?:-t|-u|--sctp-service) (\S+) -r (\S+) /gm;
const destination = / --to-destination (\S+)$/;

/** The endpoints of a node in the file of a Service, each with the chain or frontend that leads to it: `SVL-… 10.244.1.5:8080`. */
function* choicesIn(text: string, node: string): Generator<string> {
  for (const [, at, frontend = '', to] of text.matchAll(realLine))
    if (at === node) yield `${frontend.replace(/^\$\{.*\}/, '*')} ${to}`;
  const endpoints = new Map(
    [...text.matchAll(/^-A (KUBE-SEP-\S+) .* --to-destination (\S+)$/gm)].map(([, k, to]) => [k, to]),
  );
  for (const [, at, frontend, chain] of text.matchAll(chainLine))
    if (at === node) yield `${frontend} ${endpoints.get(chain)}`;
}

/** The same of the active rules, in either layout, where a chain may hold its endpoints itself or jump to a group. */
function* localChoices({ families }: ActiveRules): Generator<string> {
  for (const { nat } of Object.values(families))
    for (const chain of nat.chains.keys()) {
      const [, frontend] = /^(?:KUBE|SLU)-(SVL-[^.]+)/.exec(chain) ?? [];
      if (frontend !== undefined) for (const to of destinations(chain, nat)) yield `${frontend} ${to}`;
    }
}

function* destinations(chain: string, table: TableProgram): Generator<string> {
  for (const rule of table.chains.get(chain) ?? []) {
    const [, to] = destination.exec(rule) ?? [];
    if (to !== undefined) yield to;
    const [, next] = / -[jg] ((?:KUBE|SLU)-(?:SEP|GRP)-\S+)$/.exec(rule) ?? [];
    if (next !== undefined) yield* destinations(next, table);
  }
}

/** The same in mode ipvs, where a weight of 0 means removed. `*` replaces addresses of the machine, which files do not have. */
function* serverChoices({ ipvs }: ActiveRules): Generator<string> {
  for (const { address, port, real } of ipvs?.virtualServers.values() ?? [])
    for (const one of real.values()) {
      if (one.weight === 0) continue;
      const to = printEndpoint(one.address, one.port);
      yield* [`${printEndpoint(address, port)} ${to}`, `*:${port} ${to}`];
    }
}
