import {
  isAlias,
  isMap,
  isScalar,
  isSeq,
  type Node,
  type Pair,
  type ParsedNode,
  Scalar,
  type YAMLMap,
  type YAMLSeq,
} from 'yaml';
import type { Json } from '../../render/kube.ts';
import type { ParseFinding } from './finding.ts';
import { loadLimits } from '../limits.ts';
import type { Marks } from './marks.ts';
import { isAmbiguous } from './scalars.ts';

/** The value of a node, with the number and the depth of its values after expanding aliases. */
interface NodeValue {
  readonly value: Json;
  readonly count: number;
  readonly depth: number;
}

/**
 * Converts the nodes of a document to JSON like Kubernetes, and reports what the library accepts: duplicate keys, keys that are not
 * strings, aliases that expand too far or recursively, deep nesting, ambiguous scalars.
 */
export class NodeReader {
  readonly errors: ParseFinding[] = [];
  readonly doubts: ParseFinding[] = [];
  private readonly marks: Marks | undefined;
  private readonly path: (string | number)[] = [];
  /** The values of anchors; undefined while an anchor's node is being read. */
  private readonly anchors = new Map<string, NodeValue | undefined>();
  private aliasedValues = 0;

  constructor(marks?: Marks) {
    this.marks = marks;
  }

  /** The value of the document's root; meaningless after errors. */
  read(root: ParsedNode | null): Json {
    return this.node('', root, root?.range[0] ?? 0).value;
  }

  /** @param offset the start of the value for a missing node: a key without a value has none. */
  private node(key: string | number, node: Node | null, offset: number): NodeValue {
    const at = node?.range?.[0] ?? offset;
    const mark = this.marks?.enter(key, at);
    const anchor = node && !isAlias(node) ? (node as { anchor?: string }).anchor : undefined;
    if (anchor !== undefined) this.anchors.set(anchor, undefined);
    if (node?.tag !== undefined && !coreTags.has(node.tag))
      this.doubt('YAML_SYNTAX', at, `Cannot read the tag ${node.tag}: it is not in the core schema`, tagHint);
    const reading = this.content(node, at);
    if (anchor !== undefined) this.anchors.set(anchor, reading);
    if (mark !== undefined) this.marks?.leave(mark);
    return reading;
  }

  private content(node: Node | null, at: number): NodeValue {
    if (this.path.length > loadLimits.depthMax) return this.refuse('INPUT_TOO_LARGE', at, tooDeep, deepHint);
    if (isMap(node)) return this.map(node);
    if (isSeq(node)) return this.list(node);
    if (isAlias(node)) return this.alias(node.source, at);
    if (isScalar(node)) this.doubtScalar(node, at);
    return { value: isScalar(node) ? (node.value as Json) : null, count: 1, depth: 0 };
  }

  private map(node: YAMLMap): NodeValue {
    const map: Record<string, Json> = {};
    const seen = new Set<string>();
    let [count, depth] = [1, 0];
    for (const pair of node.items as Pair<Node | null, Node | null>[]) {
      const at = pair.key?.range?.[0] ?? node.range?.[0] ?? 0;
      const key = this.key(pair.key, at);
      if (key === undefined) continue;
      this.path.push(key);
      if (seen.has(key))
        this.refuse('YAML_DUPLICATE_KEY', at, `Cannot read the map: it has the key "${key}" twice`, duplicateHint);
      seen.add(key);
      const reading = this.node(key, pair.value, at);
      // Not an assignment, so that `__proto__` is an ordinary key.
      Object.defineProperty(map, key, { value: reading.value, enumerable: true, configurable: true, writable: true });
      count += reading.count;
      depth = Math.max(depth, reading.depth + 1);
      this.path.pop();
    }
    if (seen.size > loadLimits.keysPerMapMax)
      this.refuse('INPUT_TOO_LARGE', node.range?.[0] ?? 0, tooWide(seen.size), wideHint);
    return { value: map, count, depth };
  }

  private list(node: YAMLSeq): NodeValue {
    const list: Json[] = [];
    let [count, depth] = [1, 0];
    for (const item of node.items as (Node | null)[]) {
      this.path.push(list.length);
      const reading = this.node(list.length, item, node.range?.[0] ?? 0);
      list.push(reading.value);
      count += reading.count;
      depth = Math.max(depth, reading.depth + 1);
      this.path.pop();
    }
    return { value: list, count, depth };
  }

  /** The key as a JSON string, from a string, number or boolean. JSON has no other keys, and kubectl refuses them too. */
  private key(node: Node | null, at: number): string | undefined {
    if (isScalar(node)) this.doubtScalar(node, at);
    const value = isAlias(node) ? this.anchors.get(node.source)?.value : isScalar(node) ? (node.value as Json) : null;
    if (value !== null && value !== undefined && typeof value !== 'object') return String(value);
    const hint = 'Name the key; a value such as {{name}} is part of a template that must be rendered first';
    this.refuse('YAML_SYNTAX', at, 'Cannot read the map: a key is itself a map, a list or empty', hint);
    return undefined;
  }

  private alias(anchor: string, at: number): NodeValue {
    const reading = this.anchors.get(anchor);
    if (reading === undefined) {
      const why = this.anchors.has(anchor)
        ? 'it refers to a value that contains it'
        : 'no anchor of this name precedes it';
      const code = this.anchors.has(anchor) ? 'YAML_ALIAS_BOMB' : 'YAML_SYNTAX';
      return this.refuse(code, at, `Cannot expand the alias *${anchor}: ${why}`, 'Replace the alias with the value');
    }
    const before = this.aliasedValues;
    this.aliasedValues += reading.count;
    if (this.aliasedValues > loadLimits.aliasedValuesMax) {
      // Only the first alias beyond the limit is reported.
      if (before > loadLimits.aliasedValuesMax) return nothing;
      const message = `Cannot expand the alias *${anchor}: the aliases stand for more than ${loadLimits.aliasedValuesMax} values`;
      return this.refuse('YAML_ALIAS_BOMB', at, message, 'Write the values out, in separate documents');
    }
    if (this.path.length + reading.depth > loadLimits.depthMax)
      return this.refuse('INPUT_TOO_LARGE', at, tooDeep, deepHint);
    return reading;
  }

  private doubtScalar(node: Scalar, at: number): void {
    const { source } = node;
    if (node.type !== Scalar.PLAIN || node.tag !== undefined || source === undefined || !isAmbiguous(source)) return;
    const hint =
      source === '<<'
        ? 'Write the merged keys out'
        : `Quote it if it is a string ("${source}"), or write the intended value`;
    this.doubt(
      'YAML_AMBIGUOUS_SCALAR',
      at,
      `Cannot read ${source}: YAML 1.1 (kubectl) and YAML 1.2 give it different values`,
      hint,
    );
  }

  private doubt(code: ParseFinding['code'], offset: number, message: string, hint: string): void {
    this.doubts.push({ code, offset, path: [...this.path], message, hint });
  }

  private refuse(code: ParseFinding['code'], offset: number, message: string, hint: string): NodeValue {
    if (this.errors.length < loadLimits.errorsPerDocumentMax) {
      this.errors.push({ code, offset, path: [...this.path], message, hint });
    }
    return nothing;
  }
}

const nothing: NodeValue = { value: null, count: 1, depth: 0 };
const coreTags = new Set(
  ['str', 'int', 'float', 'bool', 'null', 'map', 'seq'].map((name) => `tag:yaml.org,2002:${name}`),
);
const tagHint = 'Remove the tag; quote the value if it is a string';
const tooDeep = `Cannot read the document: its maps and lists are nested deeper than ${loadLimits.depthMax}`;
const deepHint = 'Kubernetes objects are never nested that deeply; check the indentation';
const tooWide = (keys: number) =>
  `Cannot read the map: it has ${keys} keys, and the limit is ${loadLimits.keysPerMapMax}`;
const wideHint = 'Split the object; objects that Sluice reads never have that many keys';
const duplicateHint = 'Remove one of the two: parsers disagree on which one counts';
