import {
  type Event,
  EVENT_ID,
  getScalarValue,
  type MappingEvent,
  type ScalarEvent,
  SCALAR_STYLE,
  type SequenceEvent,
} from 'js-yaml';
import { isMap, type Json, type JsonObject } from '../../render/model/kube.ts';
import { Findings } from './finding.ts';
import { loadLimits } from './limits.ts';
import type { Marks } from './marks.ts';
import { explicitScalar, isAmbiguous, plainScalar, scalarTags } from './scalars.ts';
import type { YamlSource } from './yaml-source.ts';

/** The value of an anchor, with the number and the depth of its values after expanding aliases. */
interface AnchoredValue {
  readonly value: Json;
  readonly count: number;
  readonly depth: number;
}

/**
 * Builds the JSON value of a document from its events, as Kubernetes reads YAML, and reports what the library accepts: duplicate keys, keys
 * that are not strings, aliases that expand too far or recursively, deep nesting, ambiguous scalars.
 */
export class EventReader {
  readonly found = new Findings();
  readonly #source: YamlSource;
  readonly #events: readonly Event[];
  readonly #marks: Marks | undefined;
  /** The values of anchors; undefined while an anchor's node is being read. */
  readonly #anchors = new Map<string, AnchoredValue | undefined>();
  #next = 0;
  /** Values so far, with those that aliases stand for. */
  #count = 0;
  /** The greatest depth since the begin of the innermost anchored value. */
  #deepest = 0;
  #aliased = 0;

  constructor(source: YamlSource, events: readonly Event[], marks: Marks | undefined) {
    this.#source = source;
    this.#events = events;
    this.#marks = marks;
  }

  /** The value of the document's root; meaningless after errors. A text without a document is null. */
  document(): Json {
    if (!this.#begins(EVENT_ID.DOCUMENT)) return null;
    const value = this.#value('', 0);
    this.#end();
    return value;
  }

  /** Adds the pairs of a document that is a map. @returns whether it is one, or has no content */
  pairs(map: Record<string, Json>): boolean {
    if (!this.#begins(EVENT_ID.DOCUMENT)) return true;
    if (!this.#begins(EVENT_ID.MAPPING)) return false;
    this.#pairs(map, 0);
    this.#end();
    return true;
  }

  /** Adds the items of a document that is a list, below a key of the root. @returns whether it is one */
  items(key: string, list: Json[]): boolean {
    if (!this.#begins(EVENT_ID.DOCUMENT) || !this.#begins(EVENT_ID.SEQUENCE)) return false;
    this.found.path.push(key);
    this.#items(list, 0);
    this.found.path.pop();
    this.#end();
    return true;
  }

  #begins(type: Event['type']): boolean {
    if (this.#events[this.#next]?.type !== type) return false;
    this.#next++;
    return true;
  }

  /** At the end of the first document. */
  #end(): void {
    if (this.#next + 1 >= this.#events.length) return;
    const hint = 'Start it with --- on a line of its own';
    this.found.refuse('YAML_SYNTAX', 0, 'Cannot read the document: another one begins inside it', hint);
  }

  /** Reads the value at the cursor. @param before the place of a value that is left out: its key's */
  #value(key: string | number, before: number): Json {
    const event = this.#events[this.#next++] as ValueEvent;
    const at = this.#start(event, before);
    const mark = this.#marks?.enter(key, at, before);
    const value = event.type === EVENT_ID.ALIAS ? this.#alias(this.#nameOf(event), at) : this.#node(event, at);
    if (mark !== undefined) this.#marks?.leave(mark);
    return value;
  }

  #node(event: NodeEvent, at: number): Json {
    if (event.anchorStart < 0) return this.#content(event, at);
    const anchor = this.#nameOf(event);
    this.#anchors.set(anchor, undefined);
    const [count, deepest, level] = [this.#count, this.#deepest, this.found.path.length];
    this.#deepest = level;
    const value = this.#content(event, at);
    this.#anchors.set(anchor, { value, count: this.#count - count, depth: this.#deepest - level });
    this.#deepest = Math.max(deepest, this.#deepest);
    return value;
  }

  #content(event: NodeEvent, at: number): Json {
    this.#count++;
    const level = this.found.path.length;
    if (level > this.#deepest) this.#deepest = level;
    if (level === loadLimits.depthMax + 1) this.found.refuse('INPUT_TOO_LARGE', at, tooDeep, deepHint);
    if (event.type === EVENT_ID.SCALAR) return this.#scalar(event, at);
    this.#collectionTag(event, at);
    return event.type === EVENT_ID.MAPPING ? this.#map(at) : this.#list(at);
  }

  #map(at: number): Json {
    const map: Record<string, Json> = {};
    const keys = this.#pairs(map, at);
    if (keys > loadLimits.keysPerMapMax) this.found.refuse('INPUT_TOO_LARGE', at, tooWide(keys), wideHint);
    return map;
  }

  /** Reads the pairs of a map to its end. @returns the number of its keys */
  #pairs(map: Record<string, Json>, at: number): number {
    let keys = 0;
    const merged = new Set<string>();
    let isMerged = false;
    while (this.#peek().type !== EVENT_ID.POP) {
      const keyAt = this.#start(this.#peek(), at);
      if (this.#isMergeKey()) {
        if (isMerged) this.#refuseTwice('<<', keyAt);
        isMerged = true;
        keys += this.#merge(map, merged, keyAt);
        continue;
      }
      const key = this.#key(keyAt);
      if (key === undefined) {
        this.#skip();
        continue;
      }
      this.found.path.push(key);
      const isTwice = Object.hasOwn(map, key) && !merged.delete(key);
      if (isTwice) this.#refuseTwice(key, keyAt);
      else keys++;
      const value = this.#value(key, keyAt);
      put(map, key, value);
      this.found.path.pop();
    }
    this.#next++;
    return keys;
  }

  #refuseTwice(key: string, at: number): void {
    const message = `Cannot read the map: it has the key "${key}" twice`;
    this.found.refuse('YAML_DUPLICATE_KEY', at, message, duplicateHint);
  }

  #isMergeKey(): boolean {
    const event = this.#peek();
    if (event.type !== EVENT_ID.SCALAR || event.style !== SCALAR_STYLE.PLAIN) return false;
    const tag = event.tagStart < 0 ? '' : this.#source.text.slice(event.tagStart, event.tagEnd);
    return (tag === '' || mergeTags.has(tag)) && getScalarValue(this.#source.text, event) === '<<';
  }

  /**
   * Adds the pairs of a map, or of a list of maps, whose first ones take precedence. A key behind `<<` replaces a merged one. A key before
   * it is a doubt: YAML 1.1 keeps it, and kubectl (go-yaml v2) replaces it.
   * @param merged receives the keys that were added
   * @returns their number
   */
  #merge(map: Record<string, Json>, merged: Set<string>, at: number): number {
    this.#next++;
    this.found.path.push('<<');
    const value = this.#value('<<', at);
    const sources = Array.isArray(value) ? (value as readonly Json[]) : [value];
    for (const source of sources) {
      if (isMap(source)) this.#mergeMap(map, merged, source, at);
      else if (this.found.errors.length === 0) this.found.refuse('YAML_SYNTAX', at, noMap, noMapHint);
    }
    this.found.path.pop();
    return merged.size;
  }

  #mergeMap(map: Record<string, Json>, merged: Set<string>, source: JsonObject, at: number): void {
    for (const [key, value] of Object.entries(source)) {
      if (!Object.hasOwn(map, key)) {
        put(map, key, value);
        merged.add(key);
      } else if (!merged.has(key) && JSON.stringify(map[key]) !== JSON.stringify(value)) {
        const message = `Cannot merge the key "${key}": YAML 1.1 keeps the value before <<, and kubectl replaces it`;
        this.found.doubt(
          'YAML_AMBIGUOUS_SCALAR',
          at,
          message,
          'Move << to the begin of the map, or remove one of the two',
        );
      }
    }
  }

  #list(at: number): Json {
    const list: Json[] = [];
    this.#items(list, at);
    return list;
  }

  #items(list: Json[], at: number): void {
    while (this.#peek().type !== EVENT_ID.POP) {
      this.found.path.push(list.length);
      list.push(this.#value(list.length, at));
      this.found.path.pop();
    }
    this.#next++;
  }

  /**
   * Reads the key at the cursor as a JSON string, from a string, number or boolean. JSON has no other keys, and kubectl refuses them too.
   * @returns undefined after an error
   */
  #key(at: number): string | undefined {
    const event = this.#peek();
    if (event.type === EVENT_ID.SCALAR) {
      this.#next++;
      const value = this.#scalar(event, at);
      if (event.anchorStart >= 0) this.#anchors.set(this.#nameOf(event), { value, count: 1, depth: 0 });
      if (value !== null) return String(value);
    } else if (event.type === EVENT_ID.ALIAS) {
      this.#next++;
      const value = this.#anchors.get(this.#nameOf(event))?.value;
      if (value !== null && value !== undefined && typeof value !== 'object') return String(value);
    } else this.#skip();
    const hint = 'Name the key; a value such as {{name}} is part of a template that must be rendered first';
    this.found.refuse('YAML_SYNTAX', at, 'Cannot read the map: a key is itself a map, a list or empty', hint);
    return undefined;
  }

  #scalar(event: ScalarEvent, at: number): Scalar {
    if (event.valueEnd - event.valueStart > loadLimits.textCharactersMax) {
      this.found.refuse('INPUT_TOO_LARGE', at, tooLong, longHint);
      return '';
    }
    const source = getScalarValue(this.#source.text, event);
    if (event.tagStart >= 0) return this.#taggedScalar(event, source, at);
    if (event.style !== SCALAR_STYLE.PLAIN) return source;
    if (isAmbiguous(source)) this.#doubtScalar(source, at);
    return plainScalar(source);
  }

  #taggedScalar(event: ScalarEvent, source: string, at: number): Scalar {
    const tag = this.#source.text.slice(event.tagStart, event.tagEnd);
    if (!scalarTags.has(tag)) {
      this.#doubtTag(tag, at);
      return source;
    }
    const value = explicitScalar(tag, source);
    if (value !== undefined) return value;
    this.found.refuse('YAML_SYNTAX', at, `Cannot read the value: its text is not valid for the tag ${tag}`, tagHint);
    return null;
  }

  #collectionTag(event: MappingEvent | SequenceEvent, at: number): void {
    if (event.tagStart < 0) return;
    const tag = this.#source.text.slice(event.tagStart, event.tagEnd);
    const own = event.type === EVENT_ID.MAPPING ? 'map' : 'seq';
    if (tag !== '!' && tag !== `!!${own}` && tag !== `!<tag:yaml.org,2002:${own}>`) this.#doubtTag(tag, at);
  }

  #alias(anchor: string, at: number): Json {
    const known = this.#anchors.get(anchor);
    if (known === undefined) {
      const isOpen = this.#anchors.has(anchor);
      const why = isOpen ? 'it refers to a value that contains it' : 'no anchor of this name precedes it';
      const code = isOpen ? 'YAML_ALIAS_BOMB' : 'YAML_SYNTAX';
      this.found.refuse(code, at, `Cannot expand the alias *${anchor}: ${why}`, 'Replace the alias with the value');
      return null;
    }
    const before = this.#aliased;
    this.#aliased += known.count;
    this.#count += known.count;
    if (this.#aliased > loadLimits.aliasedValuesMax) {
      const message = `Cannot expand the alias *${anchor}: the aliases stand for more than ${loadLimits.aliasedValuesMax} values`;
      // Only the first alias beyond the limit is reported.
      if (before <= loadLimits.aliasedValuesMax)
        this.found.refuse('YAML_ALIAS_BOMB', at, message, 'Write the values out, in separate documents');
      return null;
    }
    const depth = this.found.path.length + known.depth;
    this.#deepest = Math.max(this.#deepest, depth);
    if (depth > loadLimits.depthMax) this.found.refuse('INPUT_TOO_LARGE', at, tooDeep, deepHint);
    return known.value;
  }

  #peek(): ValueEvent | PopEvent {
    return this.#events[this.#next] as ValueEvent | PopEvent;
  }

  /** Passes over the value at the cursor. */
  #skip(): void {
    let open = 0;
    do {
      const { type } = this.#events[this.#next++] as Event;
      if (type === EVENT_ID.MAPPING || type === EVENT_ID.SEQUENCE) open++;
      else if (type === EVENT_ID.POP) open--;
    } while (open > 0);
  }

  /** @see #startInText, in the text as it was given */
  #start(event: ValueEvent | PopEvent, before: number): number {
    const at = this.#startInText(event);
    return at === undefined ? before : this.#source.original(at);
  }

  /** Where a value starts: behind its tag and its anchor, at its quote or bracket. @returns undefined for one that is left out */
  #startInText(event: ValueEvent | PopEvent): number | undefined {
    if (event.type === EVENT_ID.POP) return undefined;
    if (event.type === EVENT_ID.ALIAS) return event.anchorStart - 1;
    if (event.type !== EVENT_ID.SCALAR) return event.start;
    if (event.valueStart < 0) return undefined;
    if (event.style === SCALAR_STYLE.PLAIN) return event.valueStart;
    if (event.style === SCALAR_STYLE.SINGLE_QUOTED || event.style === SCALAR_STYLE.DOUBLE_QUOTED)
      return event.valueStart - 1;
    // Of a block the library knows the first line of text; its header is on the line above.
    const headerAt = this.#source.text.lastIndexOf('\n', event.valueStart - 2) + 1;
    const header = this.#source.text.slice(headerAt, event.valueStart);
    return headerAt + Math.max(header.search(blockHeader), 0);
  }

  #nameOf({ anchorStart, anchorEnd }: Pick<ScalarEvent, 'anchorStart' | 'anchorEnd'>): string {
    return this.#source.text.slice(anchorStart, anchorEnd);
  }

  #doubtScalar(source: string, at: number): void {
    const hint = `Quote it if it is a string ("${source}"), or write the intended value`;
    const message = `Cannot read ${source}: YAML 1.1 (kubectl) and YAML 1.2 give it different values`;
    this.found.doubt('YAML_AMBIGUOUS_SCALAR', at, message, hint);
  }

  #doubtTag(tag: string, at: number): void {
    this.found.doubt('YAML_SYNTAX', at, `Cannot read the tag ${tag}: it is not in the core schema`, tagHint);
  }
}

type Scalar = null | boolean | number | string;
type NodeEvent = ScalarEvent | MappingEvent | SequenceEvent;
type ValueEvent = NodeEvent | Extract<Event, { type: typeof EVENT_ID.ALIAS }>;
type PopEvent = Extract<Event, { type: typeof EVENT_ID.POP }>;

function put(map: Record<string, Json>, key: string, value: Json): void {
  if (key === '__proto__')
    Object.defineProperty(map, key, { value, enumerable: true, configurable: true, writable: true });
  else map[key] = value;
}

const mergeTags: ReadonlySet<string> = new Set(['!!merge', '!<tag:yaml.org,2002:merge>']);
const noMap = 'Cannot merge: the value of << is neither a map nor a list of maps';
const noMapHint = 'Refer to a map by its anchor, or write the keys out; quote "<<" if it is a key';
const blockHeader = /(?<=^|[\s:-])[|>][-+1-9]{0,2}[ \t]*(?:[ \t]#.*)?\n?$/;
const tagHint = 'Remove the tag; quote the value if it is a string';
export const tooDeep = `Cannot read the document: its maps and lists are nested deeper than ${loadLimits.depthMax}`;
export const deepHint =
  'Kubernetes objects are never nested that deeply; check the indentation, and look for an unclosed bracket';
const tooWide = (keys: number) =>
  `Cannot read the map: it has ${keys} keys, and the limit is ${loadLimits.keysPerMapMax}`;
const wideHint = 'Split the object; objects that Sluice reads never have that many keys';
const tooLong = `Cannot read the value: its text has more than ${loadLimits.textCharactersMax} characters`;
const longHint = 'Shorten it; the API server takes no object that large';
const duplicateHint = 'Remove one of the two: parsers disagree on which one counts';
