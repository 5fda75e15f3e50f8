import { UnreadText } from './unread-text.ts';
import { type Json, valueOf, type Word, type Words } from './words.ts';

const metaWords = ['iifname', 'oifname', 'iif', 'oif', 'iifgroup', 'oifgroup', 'iiftype', 'oiftype'] as const;
const protocols = ['ip', 'ip6', 'tcp', 'udp', 'sctp', 'th', 'icmp', 'icmpv6', 'igmp', 'ether', 'vlan', 'arp'] as const;
/** Headers of extensions: `rt type 0`. */
const extensions = ['rt', 'frag', 'hbh', 'dst', 'mh'] as const;

/** What a rule reads from a packet, as `ip daddr . meta l4proto . th dport`. @throws UnreadText */
export function readExpression(words: Words): Json {
  const parts = [readPart(words)];
  while (words.takeIf('.') !== undefined) parts.push(readPart(words));
  return parts.length === 1 ? (parts[0] as Json) : { concat: parts };
}

function readPart(words: Words): Json {
  const part = readBare(words);
  const sign = words.takeIf('&');
  return sign === undefined ? part : { [sign]: [part, inParentheses(words) ?? valueOf(words.take())] };
}

/** `(fin | syn | rst | ack)`: names of bits. @returns undefined: none opens here */
function inParentheses(words: Words): Json | undefined {
  if (!words.next.startsWith('(')) return undefined;
  const names: string[] = [];
  for (let isOpen = true; isOpen; ) {
    const { text } = words.take();
    isOpen = !text.endsWith(')');
    if (text !== '|') names.push(text.replaceAll(/[()]/g, ''));
  }
  return names;
}

function readBare(words: Words): Json {
  const { text: word } = words.take();
  if (metaWords.some((one) => one === word)) return { meta: { key: word } };
  if (word === 'tcp' && words.takeIf('option') !== undefined)
    return { 'tcp option': { name: words.take().text, field: words.take().text } };
  if (protocols.some((one) => one === word)) return { payload: { protocol: word, field: fieldOf(words.take()) } };
  // Of the route, not of a header.
  if (word === 'rt' && /^(?:classid|mtu|ipsec)$/.test(words.next)) return { rt: { key: words.take().text } };
  if (extensions.some((one) => one === word)) return { exthdr: { name: word, field: words.take().text } };
  switch (word) {
    case 'meta':
      return { meta: { key: words.take().text } };
    case 'ct':
      return readConnection(words);
    case 'exthdr':
      return { exthdr: { name: words.take().text } };
    case 'socket':
      return { socket: { key: words.take().text, ...(words.takeIf('level') ? { level: words.takeNumber() } : {}) } };
    case 'fib': {
      const flags = [words.take().text];
      while (words.takeIf('.') !== undefined) flags.push(words.take().text);
      return { fib: { result: words.take().text, flags } };
    }
    case 'numgen': {
      const mode = words.take().text;
      return { numgen: { mode, ...modulus(words), offset: words.takeIf('offset') ? words.takeNumber() : 0 } };
    }
    case 'jhash': {
      const expr = words.inner(() => readExpression(words));
      const of = modulus(words);
      const seed = words.takeIf('seed') === undefined ? {} : { seed: numberOf(words) };
      return { jhash: { ...of, ...seed, expr, ...(words.takeIf('offset') ? { offset: words.takeNumber() } : {}) } };
    }
    default:
      throw new UnreadText(`${word} is not read`);
  }
}

const fields: ReadonlySet<string> = new Set(
  (
    'saddr daddr protocol nexthdr dport sport flags type code id pcp version length ttl hoplimit dscp ecn frag-off ' +
    'sequence checksum window doff mtu operation'
  ).split(' '),
);

function fieldOf({ text }: Word): string {
  if (!fields.has(text)) throw new UnreadText(`field ${text} is not read`);
  return text;
}

/** `20931`, `0x51c3` */
function numberOf(words: Words): number {
  const value = valueOf(words.take());
  if (typeof value !== 'number') throw new UnreadText(`${JSON.stringify(value)} is no number`);
  return value;
}

function modulus(words: Words): { readonly mod: number } {
  words.expect('mod');
  return { mod: words.takeNumber() };
}

/** `ct state`, `ct original ip daddr`. */
function readConnection(words: Words): Json {
  const dir = words.takeIf('original', 'reply');
  const family = words.takeIf('ip', 'ip6');
  const key = [family ?? [], words.take().text].flat().join(' ');
  return { ct: { key, ...(dir === undefined ? {} : { dir }) } };
}

/** `@name`, `{ … }`, a value, or a list without spaces. */
export function readRight(words: Words, isMap: boolean): Json {
  if (words.next === '{') return { set: readElements(words, isMap) };
  const word = words.take();
  // Of a field that a packet has or not.
  if (!word.isQuoted && (word.text === 'missing' || word.text === 'exists')) return word.text === 'exists';
  const list = word.isQuoted || word.text.startsWith('@') ? [] : word.text.split(',');
  if (list.length > 1) return list.map((text) => valueOf({ text, isQuoted: false }));
  return words.next === '|' ? { '|': bits(word, words) } : concatenated(word, words);
}

/** `fin | syn` */
function bits(first: Word, words: Words): readonly Json[] {
  const found = [valueOf(first)];
  while (words.takeIf('|') !== undefined) found.push(valueOf(words.take()));
  return found;
}

function concatenated(first: Word, words: Words): Json {
  const parts = [valueOf(first)];
  while (words.takeIf('.') !== undefined) parts.push(valueOf(words.take()));
  return parts.length === 1 ? (parts[0] as Json) : { concat: parts };
}

/** `{ 10.96.0.1 . tcp . 443 comment "…" : goto a, … }` */
export function readElements(words: Words, isMap: boolean): readonly Json[] {
  words.expect('{');
  const found: Json[] = [];
  while (words.takeIf('}') === undefined) {
    const key = withOptions(concatenated(words.take(), words), words);
    if (isMap) {
      words.expect(':');
      found.push([key, readVerdict(words) ?? concatenated(words.take(), words)]);
    } else found.push(key);
    if (words.next !== '}') words.expect(',');
  }
  return found;
}

/** What packets and time change of an element, its counter, is left out. */
function withOptions(val: Json, words: Words): Json {
  const options: Record<string, Json> = {};
  for (;;) {
    const name = words.takeIf('comment', 'timeout', 'expires', 'counter');
    if (name === undefined) break;
    if (name === 'counter') {
      for (const one of ['packets', 'bytes']) if (words.takeIf(one) !== undefined) words.takeNumber();
    } else options[name] = words.take().text;
  }
  return Object.keys(options).length === 0 ? val : { elem: { val, ...options } };
}

/** `drop`, `goto services`; undefined: another word. */
export function readVerdict(words: Words): Json | undefined {
  const plain = words.takeIf('accept', 'drop', 'return', 'continue');
  if (plain !== undefined) return { [plain]: null };
  const jump = words.takeIf('jump', 'goto');
  return jump === undefined ? undefined : { [jump]: { target: words.take().text } };
}
