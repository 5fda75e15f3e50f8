import { type BundleFiles, serviceOf, withoutGuard } from '@sluice/bundle';
import { findSet, knownSet, readSetLine } from '@sluice/netfilter';
import { type Explanation, linesOf } from './explanation.ts';

/** A search in `.ipset` or `.ipvs` files. */
interface LineSearch {
  readonly tool: 'ipset' | 'ipvs';
  /** Predicates on lines without guards; the first one with a match counts. */
  readonly matches: readonly ((line: string) => boolean)[];
  readonly meaning: string;
}

/**
 * Finds the owner of a virtual server, a real server, a set or an entry of one.
 * @param text a line of `ipvsadm -Ln`, `ipvsadm -Sn`, `ipset list` or `ipset save`, or the name of a set
 * @returns `other-form` for a text of another form, undefined when no file has it
 */
export function explainVirtual(files: BundleFiles, text: string): Explanation | 'other-form' | undefined {
  const words = text.split(/\s+/);
  const wanted = serverWanted(words) ?? setWanted(words);
  if (!wanted) return 'other-form';
  const lines = linesOf(files, `.${wanted.tool}`).filter((one) => one.text !== '' && !one.text.startsWith('#'));
  for (const matches of wanted.matches) {
    const places = lines.filter((one) => matches(withoutGuard(one.text)));
    if (places.length === 0) continue;
    // Base files are of no Service.
    const services = new Set(places.map(({ file }) => serviceOf(file)).filter(Boolean));
    const [service] = services;
    return { ...(service !== undefined && services.size === 1 && { service }), places, meaning: wanted.meaning };
  }
  return undefined;
}

const protocolOptions: Readonly<Record<string, string>> = { TCP: '-t', UDP: '-u', SCTP: '--sctp-service' };
const endpointForm = /^(\[[0-9a-f:]+\]|[0-9.]+):(\d+)$/;

/** `TCP  10.96.0.10:80 wrr`, `-> 10.244.1.5:8080 Masq 1 0 0`, `-A -t 10.96.0.10:80 -s wrr`, `-a -t … -r … -m -w 1`. */
function serverWanted(words: readonly string[]): LineSearch | undefined {
  const [verb = '', second = '', third = '', , real = ''] = words;
  const option = protocolOptions[verb];
  if (option !== undefined) return virtualServer(option, second);
  if (verb === '->') return endpointForm.test(second) ? realServer(second) : undefined;
  const isSaved = Object.values(protocolOptions).includes(second) && endpointForm.test(third);
  if (verb === '-A' && isSaved) return virtualServer(second, third);
  return verb === '-a' && isSaved ? realServer(real, `-a ${second} ${third} `) : undefined;
}

function virtualServer(option: string, endpoint: string): LineSearch | undefined {
  const [, , port] = endpointForm.exec(endpoint) ?? [];
  if (port === undefined) return undefined;
  const anyNode = new RegExp(`^-A ${option} \\S*\\$\\{\\S+:${port} `);
  return {
    tool: 'ipvs',
    // In files a node's address is a variable.
    matches: [(line) => line.startsWith(`-A ${option} ${endpoint} `), (line) => anyNode.test(line)],
    meaning: 'a virtual server: the kernel forwards connections to this address and port to its real servers',
  };
}

function realServer(endpoint: string, of?: string): LineSearch {
  const named = ` -r ${endpoint} `;
  const exact = of === undefined ? [] : [(line: string) => line.startsWith(of) && line.includes(named)];
  return {
    tool: 'ipvs',
    matches: [...exact, (line) => line.includes(named)],
    meaning: 'an endpoint behind virtual servers of a Service port',
  };
}

/** `KUBE-CLUSTER-IP`, `Name: KUBE-CLUSTER-IP`, `create KUBE-CLUSTER-IP …`, `add KUBE-CLUSTER-IP 10.96.0.10,tcp:80`, `10.96.0.10,tcp:80`. */
function setWanted(words: readonly string[]): LineSearch | undefined {
  const [first = '', second = '', third = ''] = words;
  const name = first === 'Name:' || first === 'create' ? second : words.length === 1 ? first : undefined;
  const set = name === undefined ? undefined : findSet(name);
  if (name !== undefined && set) {
    return {
      tool: 'ipset',
      matches: [(line) => line.startsWith(`create ${name} `)],
      meaning: `a set that rules match: ${knownSet(set.key).comment}`,
    };
  }
  if (first === 'add') return entryWanted(second, third);
  const isAny = /^\d+$|^[0-9a-f.:]+$|^[0-9a-f.:]+,(?:tcp|udp|sctp):\d+(?:,[0-9a-f.:/]+)?$/.test(first);
  if (words.length > 1 || !isAny) return undefined;
  return {
    tool: 'ipset',
    matches: [(line) => line.startsWith('add ') && isEntry(line, first), (line) => isOnNode(line, first)],
    meaning: 'an entry of sets that rules match',
  };
}

function entryWanted(name: string, entry: string): LineSearch | undefined {
  const read = readSetLine(`add ${name} ${entry}`);
  const set = findSet(name);
  if ('error' in read || read.kind !== 'add' || !set) return undefined;
  return {
    tool: 'ipset',
    matches: [
      (line) => line.startsWith(`add ${name} `) && (isEntry(line, read.entry) || isEntry(line, entry)),
      (line) => line.startsWith(`add ${name} `) && isOnNode(line, read.entry),
    ],
    meaning: `an entry of a set that rules match: ${knownSet(set.key).comment}`,
  };
}

/** Whether a line has the entry. A network of one address is shown without its prefix. */
function isEntry(line: string, entry: string): boolean {
  return line.endsWith(` ${entry}`) || line.endsWith(` ${entry}/32`) || line.endsWith(` ${entry}/128`);
}

/** Whether a line has the entry with a variable in place of the node's address. */
function isOnNode(line: string, entry: string): boolean {
  const comma = entry.indexOf(',');
  return comma > 0 && line.includes(' ${') && line.endsWith(`}${entry.slice(comma)}`);
}
