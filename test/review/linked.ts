import { baseFile, type BundleFiles, nodeFile, profileFile, resolveNode } from '@sluice/bundle';
import { frontendKey } from '@sluice/netfilter';

/** What one node of mode nftables links, as a bundle of this node alone. */
export interface LinkedNode {
  readonly profile: string;
  readonly files: BundleFiles;
  /** Its lines, by path, in an order of their own: without guards and variables, one element a line. */
  readonly lines: ReadonlyMap<string, readonly string[]>;
  /** How `base/last.nft` has lines with a variable: `prove` reads there how traffic of pods is detected. */
  readonly written: ReadonlyMap<string, string>;
}

/** @throws where the node refuses the bundle */
export function linkedNode(files: BundleFiles, node: string): LinkedNode {
  const resolved = resolveNode(files, node);
  if (!('version' in resolved) || !resolved.nft) throw new Error(`${node} has no linked text`);
  const profile = resolved.profileName;
  const [first, last] = [baseFile(profile, 'first', 'nft'), baseFile(profile, 'last', 'nft')];
  const kept = ['cluster.yaml', nodeFile(node), profileFile(profile), first];
  const lines = new Map<string, readonly string[]>();
  const written = new Map<string, string>();
  for (const { path, lines: own } of resolved.nft) {
    if (path === first) continue;
    const before = (files.get(path) ?? '').split('\n');
    lines.set(path, [
      ...before.filter((line) => line.startsWith('#')),
      ...own.flatMap(({ text }) => elementsIn(text).map(lineOf)),
    ]);
    if (path !== last) continue;
    for (const { text, line } of own) if (elementsIn(text).length === 1) written.set(text, before[line - 1]!);
  }
  const linked = [...lines].map(([path, own]) => [path, asWritten(own, written)] as const);
  return {
    profile,
    files: new Map([...kept.map((path) => [path, files.get(path)!] as const), ...linked]),
    lines,
    written,
  };
}

/** The text of a file with these lines. */
export const asWritten = (lines: readonly string[], written: LinkedNode['written']): string =>
  lines.map((line) => `${written.get(line) ?? line}\n`).join('');

/** One element of a set or map, in the form of files. */
export interface Element {
  /** `svc` */
  readonly set: string;
  readonly n: '4' | '6';
  /** `10.96.0.10 . tcp . 80 : goto n${count}` */
  readonly text: string;
}

const lineForm = /^add element inet sluice ([a-z]+)([46]) \{ (.+) \}$/;

/** The elements of a line. A comment has none. */
export function elementsIn(line: string): readonly Element[] {
  const [, set = '', n = '', body] = lineForm.exec(line) ?? [];
  return (body?.split(', ') ?? []).map((text) => ({ set, n: n as Element['n'], text }));
}

export const lineOf = ({ set, n, text }: Element): string => `add element inet sluice ${set}${n} { ${text} }`;

/** A frontend that elements name. */
export interface Key {
  readonly address: string;
  readonly protocol: 'tcp' | 'udp' | 'sctp';
  readonly port: number;
}

/** The frontend of an element; undefined for elements of other sets. */
export function keyIn({ set, text }: Element): Key | undefined {
  const [address = '', second = '', third = ''] = text.split(' : ')[0]!.split(' . ');
  if (/^(?:tcp|udp|sctp)$/.test(set)) return { address, protocol: set as Key['protocol'], port: Number(second) };
  if (!/^(?:svc|out|always|near|none|fw|allow)$/.test(set)) return undefined;
  return { address, protocol: second as Key['protocol'], port: Number(third) };
}

/** An element of another frontend. */
export function moved(element: Element, from: Key, to: Key): Element {
  const { set, text } = element;
  if (set !== from.protocol) return { ...element, text: text.replace(frontendKey(from), frontendKey(to)) };
  return {
    ...element,
    set: to.protocol,
    text: text.replace(`${from.address} . ${from.port} .`, `${to.address} . ${to.port} .`),
  };
}
