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
