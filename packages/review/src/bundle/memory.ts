import {
  type Family,
  type FamilyProgram,
  getOrInsert,
  hasLines,
  type LinkRule,
  type Problem,
  readLine,
  type RuleError,
  type TableProgram,
} from '@sluice/netfilter';
import {
  type NodeFile,
  readRuleFile,
  readNode,
  type RuleFile,
  type VirtualFile,
  readVirtualFile,
} from '@sluice/bundle';
import { toolAt } from './tools.ts';
import { otherFamily, matchReaders } from './planes.ts';
import type { FileMatches } from './matches.ts';

/** Chains that only base files append to, in both modes. */
const sharedForm =
  /^KUBE-(?:POSTROUTING|MARK-MASQ|FORWARD|FIREWALL|NODE-PORT|LOAD-BALANCER|SOURCE-RANGES-FIREWALL|IPVS-FILTER)$/;

/**
 * Caches parsed files and rules by their text. Two bundles that differ in a hundred of ten thousand files share one memory, so that
 * equal files are parsed once.
 */
export class Memory {
  readonly #files = new Map<string, RuleFile | readonly Problem[]>();
  /** By tool and kind of file, then by text. */
  readonly #virtual = new Map<string, Map<string, VirtualFile>>();
  /** The file that a path had last: most paths have one text. */
  readonly #virtualAt = new Map<string, { readonly text: string; readonly file: VirtualFile }>();
  /** By family and path: a path is short to hash, and two bundles have at most two texts of it. */
  readonly #matches = new Map<string, { readonly text: string; readonly matches: FileMatches }[]>();
  readonly #nodes = new Map<string, NodeFile | Problem>();
  readonly #lists = new Map<string, readonly string[]>();
  readonly #lines: Record<Family, Map<string, LinkRule | RuleError>> = { ipv4: new Map(), ipv6: new Map() };

  /** A rule file, or its problems, which name `path`. */
  file(path: string, text: string): RuleFile | readonly Problem[] {
    const known = this.#files.get(text);
    if (known) return known;
    const file = readRuleFile(path, text);
    if ('sections' in file) this.#files.set(text, file);
    return file;
  }

  /** An `.ipset`, `.ipvs` or `.nft` file, or its problems, which name `path`. */
  virtual(path: string, text: string): VirtualFile | readonly Problem[] {
    const last = this.#virtualAt.get(path);
    if (last?.text === text) return last.file;
    const file = this.#virtualFile(path, text);
    if ('lines' in file) this.#virtualAt.set(path, { text, file });
    return file;
  }

  #virtualFile(path: string, text: string): VirtualFile | readonly Problem[] {
    const { tool, kind } = toolAt(path);
    if (!hasLines(tool)) throw new TypeError(`Cannot read ${path} as virtual servers, sets or a table`);
    const key = `${tool} ${kind}`;
    const files = getOrInsert(this.#virtual, key, () => new Map<string, VirtualFile>());
    const known = files.get(text);
    if (known) return known;
    const file = readVirtualFile(path, tool, kind, text);
    if ('lines' in file) files.set(text, file);
    return file;
  }

  /** The packets that the lines of a Service's file can match. */
  matches(path: string, text: string, family: Family): FileMatches {
    const found = this.#matches.get(`${family} ${path}`)?.find((one) => one.text === text);
    if (found) return found.matches;
    const { matches, other } = matchReaders[toolAt(path).tool].whole(text, family);
    this.#keepMatches(path, text, family, matches);
    if (other) this.#keepMatches(path, text, otherFamily[family], other);
    return matches;
  }

  #keepMatches(path: string, text: string, family: Family, matches: FileMatches): void {
    const key = `${family} ${path}`;
    this.#matches.set(key, [...(this.#matches.get(key) ?? []), { text, matches }]);
  }

  node(path: string, text: string): NodeFile | Problem {
    const known = this.#nodes.get(text) ?? readNode(path, text);
    if (!('code' in known)) this.#nodes.set(text, known);
    return known;
  }

  /**
   * Returns the program with equal lists of jumps and shared chains replaced by one list, so that the tracer parses their rules
   * once.
   */
  share(program: FamilyProgram, family: Family): FamilyProgram {
    const table = ({ chains, jumps }: TableProgram): TableProgram => ({
      chains: new Map(
        [...chains].map(([name, lines]) => [name, sharedForm.test(name) ? this.#same(lines, family) : lines]),
      ),
      jumps: this.#same(jumps, family),
    });
    return { filter: table(program.filter), nat: table(program.nat) };
  }

  #same(lines: readonly string[], family: Family): readonly string[] {
    const key = `${family}\n${lines.join('\n')}`;
    return getOrInsert(this.#lists, key, () => lines);
  }

  /** One rule. A profile's rules are linked once as a whole, and then again in slices. */
  line(text: string, family: Family): LinkRule | RuleError {
    const lines = this.#lines[family];
    const known = lines.get(text);
    if (known) return known;
    const line = readLine(text, family);
    lines.set(text, line);
    return line;
  }
}
