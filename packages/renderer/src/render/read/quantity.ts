/** The powers of ten of a quantity's suffixes (`resource.Quantity`, decimal form). */
const exponents: Readonly<Record<string, number>> = { n: -9, u: -6, m: -3, '': 0, k: 3, M: 6 };

const form = /^([0-9]+(?:\.[0-9]*)?|\.[0-9]+)(n|u|m|k|M|)(?:[eE]([+-]?[0-9]{1,2}))?$/;

/**
 * Reads a Kubernetes quantity in decimal form, as CPU counts are written.
 * @param text `4`, `3920m`, `1.5`, `2e1`
 * @returns undefined for another form; binary suffixes (`Ki`) are for bytes and refused
 */
export function readQuantity(text: string): number | undefined {
  const [, digits, suffix = '', exponent] = form.exec(text) ?? [];
  if (digits === undefined || (suffix !== '' && exponent !== undefined)) return undefined;
  return Number(`${digits}e${(exponents[suffix] ?? 0) + Number(exponent ?? 0)}`);
}
