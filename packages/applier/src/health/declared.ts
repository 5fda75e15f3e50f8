import {
  type BundleFiles,
  isProblem,
  nodeFile,
  profileFile,
  readNode,
  readPath,
  readProfile,
  sourceOf,
  type TextSource,
} from '@sluice/bundle';

/** A Service whose load balancer asks each node whether it has an endpoint of it. */
export interface HealthService {
  readonly namespace: string;
  readonly name: string;
  readonly port: number;
  /** How many distinct addresses of ready endpoints the node has. */
  readonly localEndpoints: number;
}

/** What a bundle asks of one node. */
export interface DeclaredHealth {
  readonly services: readonly HealthService[];
  /** CIDRs that choose the addresses to listen on; empty: every address. */
  readonly nodePortAddresses: readonly string[];
}

const portLine = /^# health-check node port (\d{1,5})$/m;
const localPolicy = /^# externalTrafficPolicy Local$/m;
const endpointLine = /^# endpoint (?:[a-z0-9-]+ )?(?:\[([0-9a-f:]+)\]|([0-9.]+)):\d+ ([^\s,]+)(.*)$/gm;

/**
 * The health-check node ports that a bundle declares, with what stands on one node. They come from the comment block of a Service's
 * files, which says what the Service declares: rules say where traffic goes, which is not the same while endpoints end.
 * kube-proxy counts addresses of ready endpoints that do not end (`pkg/proxy/healthcheck/service_health.go`).
 * @param files of a bundle that was admitted; of one that the node cannot read, nothing is declared
 * @returns Services sorted by port; each once, with both families counted together
 */
export function declaredHealth(files: BundleFiles, node: string): DeclaredHealth {
  const own = readNode(nodeFile(node), files.get(nodeFile(node)) ?? '');
  if (isProblem(own)) return { services: [], nodePortAddresses: [] };
  const path = profileFile(own.profile);
  const profile = readProfile(path, files.get(path) ?? '');
  const nodePortAddresses = isProblem(profile) ? [] : profile.nodePortAddresses;
  return { services: healthServices(files, node, own.profile), nodePortAddresses };
}

function healthServices(files: BundleFiles, node: string, profile: string): readonly HealthService[] {
  const found = new Map<string, { port: number; addresses: Set<string> }>();
  for (const path of files.keys()) {
    const kind = readPath(path);
    if (kind?.kind !== 'service' || kind.profile !== profile) continue;
    const declared = declaredIn(sourceOf(files, path) as TextSource, node);
    if (!declared) continue;
    const key = `${kind.namespace}/${kind.name}`;
    const entry = found.get(key) ?? { port: declared.port, addresses: new Set<string>() };
    for (const address of declared.addresses) entry.addresses.add(address);
    found.set(key, entry);
  }
  return [...found]
    .map(([key, { port, addresses }]) => {
      const [namespace = '', name = ''] = key.split('/');
      return { namespace, name, port, localEndpoints: addresses.size };
    })
    .toSorted((a, b) => a.port - b.port);
}

interface Declared {
  readonly node: string;
  readonly port: number;
  readonly addresses: readonly string[];
}

/** Few files declare anything, and after a change one file of 10,000 is another. */
const known = new WeakMap<TextSource, Declared | 'nothing'>();

function declaredIn(source: TextSource, node: string): Declared | undefined {
  const before = known.get(source);
  if (before === 'nothing') return undefined;
  if (before?.node === node) return before;
  const { text } = source;
  const port = Number(portLine.exec(text)?.[1] ?? 0);
  const declares = port >= 1 && port <= 65_535 && localPolicy.test(text);
  const declared = declares ? { node, port, addresses: [...localAddresses(text, node)] } : undefined;
  known.set(source, declared ?? 'nothing');
  return declared;
}

/** packages/bundle/README.md, "Rule files": `endpoint [PORT] ADDRESS:PORT [NODE [ZONE]] [not ready] [terminating…]`. */
function* localAddresses(text: string, node: string): Generator<string> {
  for (const [, ipv6, ipv4, at, rest = ''] of text.matchAll(endpointLine)) {
    if (at === node && !/ (not ready|terminating)(,| |$)/.test(rest)) yield ipv6 ?? ipv4 ?? '';
  }
}
