import { addAll, compareText, type Problem } from '@sluice/netfilter';
import { type JsonObject, listOf, mapOf, type Origin, type Path, textOf, parseJson } from '../../render/model/kube.ts';
import { ignoredProblem } from './problems.ts';

/** The annotations in which k3s and RKE2 write the flags of a node, with those of its config files. */
const programs = ['k3s.io', 'rke2.io'] as const;

/** Whether a Node is one of k3s or RKE2. */
export const isK3sNode = (node: JsonObject): boolean => annotationOf(node) !== undefined;

interface Annotation {
  readonly path: Path;
  readonly text: string;
  /** Its environment, as JSON. */
  readonly env: string;
}

function annotationOf(node: JsonObject): Annotation | undefined {
  const annotations = mapOf(mapOf(node['metadata'])['annotations']);
  const program = programs.find((one) => typeof annotations[`${one}/node-args`] === 'string');
  if (program === undefined) return undefined;
  const key = `${program}/node-args`;
  return {
    path: ['metadata', 'annotations', key],
    text: textOf(annotations[key]),
    env: textOf(annotations[`${program}/node-env`]),
  };
}

/** The flags of a server that its nodes have, too. */
const networkFlags = ['cluster-cidr', 'service-cidr', 'service-node-port-range', 'kube-apiserver-arg'] as const;
const flags: ReadonlySet<string> = new Set([...networkFlags, 'kube-proxy-arg', 'server', 's']);

/** A config file of k3s that says what a node runs, and where that is written. */
interface K3sConfig {
  readonly name: string;
  readonly value: JsonObject;
  readonly origin: Origin;
}

/**
 * The config of the first node. Agents, and servers that join another one, have the networks of a server that does not, if one is known.
 * @returns problems name nodes that have other flags
 */
export function k3sOfNodes(nodes: readonly Omit<K3sConfig, 'name'>[]): {
  readonly config?: K3sConfig;
  readonly problems: readonly Problem[];
} {
  const read = nodes.map(argsOf);
  const problems = read.flatMap((one) => ('code' in one ? [one] : []));
  const args = read.flatMap((one) => ('code' in one ? [] : [one]));
  const server = args.find(({ value }) => value['server'] === undefined);
  const first = server ?? args[0];
  if (!first) return { problems };
  const kindsOf = Map.groupBy(args, (one) => kindOf(one, server));
  const others = [...kindsOf].flatMap(([kind, list]) => (kind === kindOf(first, server) ? [] : list.slice(0, 1)));
  const there = first.origin.place([]);
  const hint = 'Write a profile for such nodes in sluice.yaml';
  addAll(
    problems,
    others.map(({ origin, name }) => {
      const why = `Node ${name} has other flags for kube-proxy or networks than Node ${first.name} (${there.file}:${there.line})`;
      return ignoredProblem(origin.place([]), `Node ${name}`, [['node-args']], why, hint);
    }),
  );
  return { config: first, problems };
}

/** Nodes with equal ones have equal settings. */
const kindOf = ({ value: { server, ...own } }: K3sConfig, first: K3sConfig | undefined): string => {
  const networks = Object.entries(first?.value ?? {}).filter(([key]) => isNetwork(key));
  const whole = server === undefined ? own : { ...Object.fromEntries(networks), ...own };
  return JSON.stringify(Object.entries(whole).toSorted(([a], [b]) => compareText(a, b)));
};

const isNetwork = (key: string): boolean => (networkFlags as readonly string[]).includes(key);

function argsOf({ value: node, origin }: Omit<K3sConfig, 'name'>): K3sConfig | Problem {
  const name = textOf(mapOf(node['metadata'])['name']);
  const { path, text, env } = annotationOf(node) ?? { path: [], text: '', env: '' };
  const at = origin.place(path);
  const args = parseJson(text);
  const [command, ...words] = listOf(args).map(textOf);
  if (command !== 'server' && command !== 'agent') {
    const why = 'it is not the command line of a server or an agent, as JSON';
    return ignoredProblem(at, `Node ${name}`, [path], why, 'Pass the config of k3s or RKE2, too');
  }
  const value: Record<string, readonly string[]> = {};
  for (let index = 0; index < words.length; index++) {
    const [, flag = '', given] = /^--?([a-z-]+)(?:=([^]*))?$/.exec(words[index] ?? '') ?? [];
    if (!flags.has(flag)) continue;
    const key = flag === 's' ? 'server' : flag;
    value[key] = [...(value[key] ?? []), given ?? words[++index] ?? ''];
  }
  const joins = command === 'agent' || Object.keys(mapOf(parseJson(env))).some((one) => /^(?:K3S|RKE2)_URL$/.test(one));
  return { name, value: joins ? { ...value, server: ['another'] } : value, origin: { place: () => at } };
}
