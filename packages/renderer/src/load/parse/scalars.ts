/**
 * Plain scalars that a YAML 1.1 reader, such as kubectl's, and a YAML 1.2 reader understand differently.
 * Sources: yaml.org/type (bool, int, float, merge, value) for 1.1; YAML 1.2.2, 10.3.2 (core schema) for 1.2;
 * go-yaml v2 `resolve.go` for what kubectl takes. Timestamps are no case: Kubernetes reads YAML as JSON, and there they are strings.
 */
const words = new Set('y Y yes Yes YES n N no No NO on On ON off Off OFF = <<'.split(' '));
const longestWord = 3;

/** Every number form that only one of them knows: octal with a leading 0 or 0o, binary, signed or upper-case hex, base 60. */
const forms = [
  /^[-+]?0[0-9]+$/,
  /^[-+]?0[oO][0-7]+$/,
  /^[-+]?0[bB][01]+$/,
  /^(?:[-+]0[xX]|0X)[0-9a-fA-F]+$/,
  /^[-+]?[1-9][0-9]*(?::[0-5]?[0-9])+$/,
  /^[-+]?[0-9]+(?::[0-5]?[0-9])+\.[0-9]*$/,
];
/** Number forms of both, which an underscore makes a text in 1.2. */
const numbers = [/^0x[0-9a-fA-F]+$/, /^[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?$/];

/** Whether YAML 1.1 and 1.2 read a plain scalar, given without the spaces around it, differently. */
export function isAmbiguous(plain: string): boolean {
  if (plain.length <= longestWord && words.has(plain)) return true;
  if (!/^[-+.]?[0-9]/.test(plain)) return false;
  if (!plain.includes('_')) return forms.some((form) => form.test(plain));
  const bare = plain.replaceAll('_', '');
  return [...forms, ...numbers].some((form) => form.test(bare));
}
