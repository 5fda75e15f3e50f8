import { listOf, objectOf, textOf } from './nft-values.ts';

/** Statements of a rule in about the words of nft, for people: what has no short form stays JSON. */
export function printStatements(statements: readonly unknown[]): string {
  return statements.map(printStatement).filter(Boolean).join(' ');
}

function printStatement(statement: unknown): string {
  const [name = ''] = Object.keys(objectOf(statement));
  const body = objectOf(statement)[name];
  const { op, left, right, key, data, value, target, addr, port, set, elem, flags, type, expr } = objectOf(body);
  switch (name) {
    case 'match':
      return `${print(left)}${op === '==' || op === 'in' ? '' : ` ${textOf(op)}`} ${print(right)}`;
    case 'jump':
    case 'goto':
      return `${name} ${textOf(target)}`;
    case 'accept':
    case 'drop':
    case 'return':
    case 'continue':
      return name;
    case 'counter':
      return '';
    case 'reject':
      return ['reject', textOf(type), textOf(expr)].filter(Boolean).join(' ');
    case 'masquerade':
      return `masquerade ${textOf(flags)}`.trim();
    case 'mangle':
      return `${print(key)} set ${print(value)}`;
    case 'vmap':
      return `${print(key)} vmap ${print(data)}`;
    case 'set':
      return `update ${textOf(set)} { ${print(elem)} }`;
    case 'map':
      return `${textOf(objectOf(body)['op'])} ${textOf(objectOf(body)['map'])} { ${print(elem)} : ${print(data)} }`;
    case 'dnat':
      return `dnat to ${print(addr)}${port === undefined ? '' : `:${textOf(port)}`}`;
    case 'concat':
      return print(statement);
    default:
      return JSON.stringify(statement);
  }
}

function print(value: unknown): string {
  if (typeof value === 'string' || typeof value === 'number') return String(value);
  const {
    payload,
    meta,
    ct,
    fib,
    concat,
    set,
    prefix,
    numgen,
    jhash,
    elem,
    map,
    '&': and,
    '|': or,
    '^': xor,
  } = objectOf(value);
  if (payload !== undefined) return `${textOf(objectOf(payload)['protocol'])} ${textOf(objectOf(payload)['field'])}`;
  if (meta !== undefined) return `meta ${textOf(objectOf(meta)['key'])}`;
  if (ct !== undefined) return `ct ${textOf(objectOf(ct)['key'])}`;
  if (fib !== undefined)
    return `fib ${listOf(objectOf(fib)['flags']).map(textOf).join(' . ')} ${textOf(objectOf(fib)['result'])}`;
  if (Array.isArray(concat)) return concat.map(print).join(' . ');
  if (Array.isArray(set)) return `{ ${set.map(print).join(', ')} }`;
  if (prefix !== undefined) return `${textOf(objectOf(prefix)['addr'])}/${textOf(objectOf(prefix)['len'])}`;
  if (numgen !== undefined) return `numgen ${textOf(objectOf(numgen)['mode'])} mod ${textOf(objectOf(numgen)['mod'])}`;
  if (jhash !== undefined)
    return `jhash ${print(objectOf(jhash)['expr'])} mod ${textOf(objectOf(jhash)['mod'])} seed ${textOf(objectOf(jhash)['seed'])}`;
  if (elem !== undefined) return withTime(objectOf(elem));
  if (map !== undefined) return `${print(objectOf(map)['key'])} map ${print(objectOf(map)['data'])}`;
  for (const [sign, pair] of [
    ['&', and],
    ['|', or],
    ['^', xor],
  ] as const)
    if (Array.isArray(pair)) return pair.map(print).join(` ${sign} `);
  if (Array.isArray(value)) return value.map((one) => print(one) || printStatement(one)).join(' : ');
  return printStatement(value);
}

const withTime = ({ val, timeout }: Readonly<Record<string, unknown>>): string =>
  timeout === undefined ? print(val) : `${print(val)} timeout ${textOf(timeout)}s`;
