import { UnreadText } from './unread-text.ts';
import { readExpression, readRight, readVerdict } from './expressions.ts';
import { type Json, secondsOf, valueOf, type Words } from './words.ts';

/** The statements of a rule. What is not read ends them, as `{"text": "…"}`: `readNftRule` names it. */
export function readStatements(words: Words): readonly Json[] {
  const found: Json[] = [];
  while (!words.isAtEnd) {
    const start = words.at;
    try {
      if (words.takeIf('comment') !== undefined) words.take();
      else found.push(readStatement(words));
    } catch (error) {
      if (!(error instanceof UnreadText)) throw error;
      return [...found, { text: words.textFrom(start) }];
    }
  }
  return found;
}

type Reader = (words: Words) => Json;

const readers: Readonly<Record<string, Reader>> = {
  counter: (words) => {
    if (words.takeIf('name') !== undefined) return { counter: words.take().text };
    for (const one of ['packets', 'bytes']) if (words.takeIf(one) !== undefined) words.takeNumber();
    return { counter: null };
  },
  log: (words) => {
    const options: Record<string, Json> = {};
    for (let name = words.takeIf(...ofLog); name !== undefined; name = words.takeIf(...ofLog))
      options[name] = valueOf(words.take());
    return { log: options };
  },
  masquerade: (words) => {
    // Ports of the source, which decide nothing here.
    if (words.takeIf('to') !== undefined && !/^:\d+(?:-\d+)?$/.test(words.take().text))
      throw new UnreadText('it is no port');
    const flags = flagsOf(words);
    return { masquerade: 'flags' in flags ? flags : null };
  },
  snat: (words) => ({ snat: { ...familyOf(words), ...target(words) } }),
  dnat: (words) => ({ dnat: { ...familyOf(words), ...target(words) } }),
  redirect: (words) => {
    if (words.takeIf('to') === undefined) return { redirect: null };
    const [, port] = /^:(\d+)$/.exec(words.take().text) ?? [];
    if (port === undefined) throw new UnreadText('it is no port');
    return { redirect: { port: Number(port) } };
  },
  reject: (words) => {
    if (words.takeIf('with') === undefined) return { reject: null };
    const type = words.take().text;
    if (type === 'tcp') {
      words.expect('reset');
      return { reject: { type: 'tcp reset' } };
    }
    words.takeIf('type');
    return { reject: { type, expr: words.take().text } };
  },
  notrack: () => ({ notrack: null }),
  update: (words) => readUpdate('update', words),
  add: (words) => readUpdate('add', words),
  delete: (words) => readUpdate('delete', words),
  limit: (words) => readLimit(words),
  meter: (words) => {
    const { text: name } = words.take();
    if (words.takeIf('size') !== undefined) words.takeNumber();
    words.expect('{');
    const key = readExpression(words);
    words.expect('limit');
    const stmt = readLimit(words);
    words.expect('}');
    return { meter: { key, stmt, name } };
  },
};

/** `rate over 10/second burst 5 packets`; how much it admits does not matter. @throws UnreadText for one with a name */
function readLimit(words: Words): Json {
  words.expect('rate');
  const inv = words.takeIf('over') !== undefined;
  const rate = words.take().text;
  if (words.takeIf('bytes/second', 'kbytes/second', 'mbytes/second') === undefined && !/^\d+\/\w+$/.test(rate))
    throw new UnreadText(`limit ${rate} is not read`);
  if (words.takeIf('burst') !== undefined) {
    words.takeNumber();
    words.expect('packets');
  }
  return { limit: { rate, ...(inv ? { inv } : {}) } };
}

const ofLog = ['prefix', 'level', 'group', 'snaplen', 'queue-threshold', 'flags'] as const;

const flagsOf = (words: Words): { readonly flags?: Json } =>
  /^(?:fully-random|random|persistent)(?:,|$)/.test(words.next) ? { flags: listOf(words.take().text) } : {};

const listOf = (text: string): Json => (text.includes(',') ? text.split(',') : text);

const familyOf = (words: Words): { readonly family?: string } => {
  const family = words.takeIf('ip', 'ip6');
  if (words.takeIf('addr') !== undefined) for (const one of ['.', 'port']) words.expect(one);
  return family === undefined ? {} : { family };
};

/** `to 10.244.1.5:8080`, `to [fd00::5]:8080`, `to numgen random mod 2 map { … }`. */
function target(words: Words): { readonly [name: string]: Json } {
  words.expect('to');
  const [, bracketed, plain, port] = /^(?:\[([0-9a-f:]+)\]|([0-9.]+|[0-9a-f:]{2,}))(?::(\d+))?$/.exec(words.next) ?? [];
  const addr = bracketed ?? plain;
  if (addr !== undefined) {
    words.take();
    return { addr, ...(port === undefined ? {} : { port: Number(port) }), ...flagsOf(words) };
  }
  const key = readExpression(words);
  words.expect('map');
  return { addr: { map: { key, data: readRight(words, true) } } };
}

/** `update @affinity { ip saddr }`, `update @aff4 { ip saddr . … timeout 10m : meta priority }` */
function readUpdate(op: string, words: Words): Json {
  const { text: name } = words.take();
  words.expect('{');
  const val = readExpression(words);
  const time = words.takeIf('timeout') === undefined ? undefined : words.take().text;
  const limit = words.takeIf('limit') === undefined ? undefined : readLimit(words);
  const timeout = time === undefined ? undefined : secondsOf(time);
  if (time !== undefined && timeout === undefined) throw new UnreadText(`time ${time} is not read`);
  const elem = timeout === undefined ? val : { elem: { val, timeout } };
  const data = words.takeIf(':') === undefined ? undefined : readExpression(words);
  words.expect('}');
  return data === undefined
    ? { set: { op, elem, set: name, ...(limit === undefined ? {} : { stmt: [limit] }) } }
    : { map: { op, elem, data, map: name } };
}

function readStatement(words: Words): Json {
  const verdict = readVerdict(words);
  if (verdict !== undefined) return verdict;
  const reader = Object.hasOwn(readers, words.next) ? readers[words.next] : undefined;
  if (reader) {
    words.take();
    return reader(words);
  }
  if (words.startsWith('ct', 'count')) {
    for (const one of ['ct', 'count']) words.expect(one);
    const inv = words.takeIf('over') !== undefined;
    return { 'ct count': { val: words.takeNumber(), ...(inv ? { inv } : {}) } };
  }
  const left = readExpression(words);
  if (words.takeIf('vmap') !== undefined) return { vmap: { key: left, data: readRight(words, true) } };
  if (words.takeIf('set') !== undefined) return { mangle: { key: left, value: readSum(words) } };
  const op = words.takeIf('==', '!=', '!', '<', '>', '<=', '>=');
  const right = readRight(words, false);
  // `tcp flags syn / fin,syn,rst,ack`: some of these bits.
  if (words.takeIf('/') !== undefined)
    return { match: { op: op ?? '==', left: { '&': [left, readRight(words, false)] }, right } };
  return { match: { op: op ?? usualOp(left, right), left, right } };
}

/** `meta mark | 0x00004000`, `0x00000005`, `ct mark`, `ip daddr map @slots` */
function readSum(words: Words): Json {
  if (/^\d|^0x/.test(words.next) || words.isQuoted) return valueOf(words.take());
  // No class, `0:0`: a word where others are numbers.
  if (words.takeIf('none') !== undefined) return 'none';
  const left = readExpression(words);
  if (words.takeIf('map') !== undefined) return { map: { key: left, data: readRight(words, true) } };
  const sign = words.takeIf('|', '^');
  return sign === undefined ? left : { [sign]: [left, valueOf(words.take())] };
}

/** Of states, which are bits, one of several is enough. */
const usualOp = (left: Json, right: Json): string =>
  /^\{"ct":\{"key":"(?:state|status)"|^\{"payload":\{"protocol":"tcp","field":"flags"/.test(JSON.stringify(left)) &&
  !JSON.stringify(right).startsWith('{"set"')
    ? 'in'
    : '==';
