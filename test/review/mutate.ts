import { type BundleFiles, readPath } from '@sluice/bundle';

export const pick = <T>(list: readonly T[], random: () => number): T => list[Math.floor(random() * list.length)] as T;

/** A bundle with one mistake. */
export interface MutatedBundle {
  readonly files: BundleFiles;
  readonly what: string;
}

type LineChange = (lines: string[], at: number, random: () => number) => string | undefined;

const isRule = (line: string): boolean => /^(?:@\S+ )?(?:-[Aa]|add) /.test(line);

/** Each returns a description of its change, or nothing where it does not apply to the line. */
const changes: Readonly<Record<string, LineChange>> = {
  delete: (lines, at) => `delete ${lines.splice(at, 1)[0]}`,
  duplicate: (lines, at) => {
    lines.splice(at, 0, lines[at] as string);
    return `duplicate ${lines[at]}`;
  },
  swap: (lines, at, random) => {
    const section = lines.lastIndexOf('COMMIT', at);
    const commit = lines.indexOf('COMMIT', at);
    const end = commit < 0 ? lines.length : commit;
    const others = lines.flatMap((line, n) => (n > section && n < end && n !== at && isRule(line) ? [n] : []));
    if (others.length === 0) return undefined;
    const other = pick(others, random);
    [lines[at], lines[other]] = [lines[other] as string, lines[at] as string];
    return `swap ${lines[at]} with ${lines[other]}`;
  },
  port: replace(/ --dport (\d+)/, (port) => ` --dport ${Number(port) + 1}`),
  address: replace(/ -d ([0-9.]+)\.(\d+)( |$)/, (head, last, end) => ` -d ${head}.${(Number(last) + 1) % 250}${end}`),
  source: replace(/ -s ([0-9.]+)\.(\d+)( |$)/, (head, last, end) => ` -s ${head}.${(Number(last) + 1) % 250}${end}`),
  endpoint: replace(
    / --to-destination ([0-9.]+)\.(\d+):/,
    (head, last) => ` --to-destination ${head}.${(Number(last) + 1) % 250}:`,
  ),
  'endpoint port': replace(
    / --to-destination (\S+):(\d+)$/,
    (host, port) => ` --to-destination ${host}:${Number(port) + 1}`,
  ),
  share: replace(/ --probability 0\.(\d)(\d*)/, (first, rest) => ` --probability 0.${(Number(first) + 3) % 10}${rest}`),
  negation: replace(/ ! (-[sd]|--mark|--ctstate) /, (option) => ` ${option} `),
  verdict: replace(/ -j (DROP|REJECT|ACCEPT)$/, (verdict) => ` -j ${verdict === 'DROP' ? 'REJECT' : 'DROP'}`),
  affinity: replace(/ --seconds (\d+)/, (seconds) => ` --seconds ${Number(seconds) + 60}`),
  guard: replace(/^@(node|zone)(!?)=/, (kind, not) => `@${kind}${not === '' ? '!' : ''}=`),
  target: (lines, at, random) => {
    const targets = lines.flatMap((line) => / -j (KUBE-S\S+)$/.exec(line)?.[1] ?? []);
    const match = / -j (KUBE-S\S+)$/.exec(lines[at] as string);
    if (!match || targets.length < 2) return undefined;
    lines[at] = `${(lines[at] as string).slice(0, match.index)} -j ${pick(targets, random)}`;
    return `retarget ${lines[at]}`;
  },
  locality: replace(/^@(no)?local=/, (no) => `@${no === undefined ? 'no' : ''}local=`),
  weight: replace(/ -w (\d+)$/, (weight) => ` -w ${(Number(weight) + 1) % 5}`),
  scheduler: replace(/ -s (rr|wrr|lc|mh -b mh-port)( |$)/, (name, end) => ` -s ${name === 'wrr' ? 'rr' : 'wrr'}${end}`),
  persistence: replace(/ -p (\d+)( |$)/, (seconds, end) => ` -p ${Number(seconds) + 60}${end}`),
  'real server': replace(/ -r ([0-9.]+)\.(\d+):/, (head, last) => ` -r ${head}.${(Number(last) + 1) % 250}:`),
  'real port': replace(/ -r (\S+):(\d+) /, (host, port) => ` -r ${host}:${Number(port) + 1} `),
  'virtual port': replace(/^(-A .*):(\d+) -s /, (head, port) => `${head}:${Number(port) + 1} -s `),
  entry: replace(
    /( KUBE-\S+) ([0-9.]+)\.(\d+)(?=,|$)/,
    (set, head, last) => `${set} ${head}.${(Number(last) + 1) % 250}`,
  ),
  'entry port': replace(/,(tcp|udp|sctp):(\d+)/, (protocol, port) => `,${protocol}:${Number(port) + 1}`),
  'entry protocol': replace(/,(tcp|udp):/, (protocol) => `,${protocol === 'tcp' ? 'udp' : 'tcp'}:`),
  'entry of ports': replace(/^(add \S+) (\d+)$/, (set, port) => `${set} ${Number(port) + 1}`),
  'entry network': replace(
    /,([0-9.]+)\.(\d+)((?:\/\d+)?)$/,
    (head, last, prefix) => `,${head}.${(Number(last) + 1) % 250}${prefix}`,
  ),
  set: replace(
    /(KUBE-(?:6-)?)(CLUSTER-IP|EXTERNAL-IP|LOAD-BALANCER) /,
    (prefix, name) =>
      `${prefix}${name === 'CLUSTER-IP' ? 'EXTERNAL-IP' : name === 'EXTERNAL-IP' ? 'LOAD-BALANCER' : 'CLUSTER-IP'} `,
  ),
  side: replace(/ dst,dst( |$)/, (end) => ` src,dst${end}`),
  'frontend address': replace(
    /((?:\{|,) [0-9.]+)\.(\d+)( \. (?:tcp|udp|sctp) )/,
    (head, last, protocol) => `${head}.${(Number(last) + 1) % 250}${protocol}`,
  ),
  'frontend port': replace(/( \. (?:tcp|udp|sctp) \. )(\d+)/, (head, port) => `${head}${Number(port) + 1}`),
  'frontend of a slot': replace(/( \. )(\d+)( \. \$\{)/, (head, port, slot) => `${head}${Number(port) + 1}${slot}`),
  'endpoint of a slot': replace(
    /( : [0-9.]+)\.(\d+)( \. )/,
    (head, last, end) => `${head}.${(Number(last) + 1) % 250}${end}`,
  ),
  'port of a slot': replace(/( : \S+ \. )(\d+)/, (head, port) => `${head}${Number(port) + 1}`),
  'list of a slot': replace(/\$\{(slot|localSlot)\}/, (name) => `\${${name === 'slot' ? 'localSlot' : 'slot'}}`),
  'without affinity': replace(/goto (p?)[sr](\$\{\w+\})t\d+/, (node, count) => `goto ${node}n${count}`),
  'other affinity': replace(/(goto p?[sr]\$\{\w+\}t)(\d+)/, (head, time) => `${head}${Number(time) + 60}`),
  'no endpoint': replace(/ : (goto refuse|drop)/, (verdict) => ` : ${verdict === 'drop' ? 'goto refuse' : 'drop'}`),
  policy: replace(/ (near|always)([46]) /, (name, n) => ` ${name === 'near' ? 'always' : 'near'}${n} `),
  range: replace(
    /( \. \d+ \. [0-9.]+)\.(\d+)(\/\d+)/,
    (head, last, prefix) => `${head}.${(Number(last) + 1) % 250}${prefix}`,
  ),
  'network of the profile': replace(/ (pods|keep|node|cidr)4 \{ \S+ /, (name) => ` ${name}4 { 10.0.0.0/8 `),
  comment: replace(/ --comment "(\S+) /, (key) => ` --comment "${key} really `),
};

function replace(form: RegExp, by: (...groups: string[]) => string): LineChange {
  return (lines, at) => {
    const before = lines[at] as string;
    const after = before.replace(form, (_whole, ...groups) => by(...(groups as string[])));
    if (after === before) return undefined;
    lines[at] = after;
    return `change ${before} into ${after}`;
  };
}

/** Changes one random rule of a bundle. */
export function mutate(files: BundleFiles, random: () => number): MutatedBundle {
  const paths = [...files.keys()].filter((path) => ['service', 'base'].includes(readPath(path)?.kind ?? ''));
  for (;;) {
    const path = pick(paths, random);
    const lines = (files.get(path) as string).split('\n');
    const rules = lines.flatMap((line, at) => (isRule(line) ? [at] : []));
    if (rules.length === 0) continue;
    const name = pick(Object.keys(changes), random);
    const what = (changes[name] as LineChange)(lines, pick(rules, random), random);
    if (what !== undefined) return { files: new Map([...files, [path, lines.join('\n')]]), what: `${path}: ${what}` };
  }
}
