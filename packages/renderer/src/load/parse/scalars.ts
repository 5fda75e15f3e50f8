import { boolCoreTag, floatCoreTag, intCoreTag, NOT_RESOLVED, nullCoreTag, strTag } from 'js-yaml';

/**
 * Plain scalars that a YAML 1.1 reader, such as kubectl's, and a YAML 1.2 reader understand differently.
 * Sources: yaml.org/type (bool, int, float, merge, value) for 1.1; YAML 1.2.2, 10.3.2 (core schema) for 1.2;
 * go-yaml v2 `resolve.go` for kubectl. Timestamps do not matter: Kubernetes reads YAML as JSON, where they are strings.
 */
const words = new Set('y Y yes Yes YES n N no No NO on On ON off Off OFF = <<'.split(' '));
const longestWord = 3;

/** All number forms of only one version: octal with a leading 0 or 0o, binary, signed or upper-case hex, base 60. */
const forms = [
  /^[-+]?0[0-9]+$/,
  /^[-+]?0[oO][0-7]+$/,
  /^[-+]?0[bB][01]+$/,
  /^(?:[-+]0[xX]|0X)[0-9a-fA-F]+$/,
  /^[-+]?[1-9][0-9]*(?::[0-5]?[0-9])+$/,
  /^[-+]?[0-9]+(?::[0-5]?[0-9])+\.[0-9]*$/,
];
/** Number forms of both versions that with an underscore are strings in 1.2. */
const numbers = [/^0x[0-9a-fA-F]+$/, /^[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?$/];

/** Whether YAML 1.1 and 1.2 read a trimmed plain scalar differently. */
export function isAmbiguous(plain: string): boolean {
  if (plain.length <= longestWord && words.has(plain)) return true;
  if (!/^[-+.]?[0-9]/.test(plain)) return false;
  if (!plain.includes('_')) return forms.some((form) => form.test(plain));
  const bare = plain.replaceAll('_', '');
  return [...forms, ...numbers].some((form) => form.test(bare));
}

/** The value of a plain scalar in YAML 1.2's core schema. */
export function plainScalar(plain: string): null | boolean | number | string {
  if (plain.length > 0 && !mayBeNoString.test(plain)) return plain;
  for (const tag of [nullCoreTag, boolCoreTag, intCoreTag, floatCoreTag]) {
    const value = tag.resolve(plain, false, tag.tagName);
    if (value !== NOT_RESOLVED) return value;
  }
  return plain;
}

/** How each null, boolean and number of the core schema begins; other texts are most of them. */
const mayBeNoString = /^(?:[-+.\d~]|(?:null|true|false)$)/i;

const tags = { str: strTag, null: nullCoreTag, bool: boolCoreTag, int: intCoreTag, float: floatCoreTag } as const;

/** The tags of scalars in the core schema, as they are written: `!!int`. `!` makes a string of any scalar. */
export const scalarTags: ReadonlyMap<string, (typeof tags)[keyof typeof tags]> = new Map([
  ['!', strTag],
  ...Object.entries(tags).flatMap(([name, tag]) =>
    [`!!${name}`, `!<${tag.tagName}>`].map((spelled) => [spelled, tag] as const),
  ),
]);

/** The value of a scalar with one of `scalarTags`; undefined for a text that the tag does not have. */
export function explicitScalar(tag: string, source: string): null | boolean | number | string | undefined {
  const known = scalarTags.get(tag);
  const value = known?.resolve(source, true, known.tagName);
  return value === NOT_RESOLVED ? undefined : value;
}
