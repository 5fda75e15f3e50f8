/**
 * `Ignored 14 objects of other kinds (13 Deployments, 1 Ingress)`; empty when there are none.
 * @param kinds the number of ignored objects of each kind
 */
export function ignoredText(kinds: ReadonlyMap<string, number>): string {
  const total = [...kinds.values()].reduce((sum, count) => sum + count, 0);
  if (total === 0) return '';
  const counted = [...kinds].map(([kind, count]) => `${count} ${count === 1 ? kind : plural(kind)}`);
  return `Ignored ${total === 1 ? '1 object of another kind' : `${total} objects of other kinds`} (${counted.join(', ')})\n`;
}

/** `Ingresses`, `NetworkPolicies`, `Services.serving.knative.dev`. */
function plural(kind: string): string {
  const [name = '', ...group] = kind.split('.');
  return [pluralOf(name), ...group].join('.');
}

function pluralOf(name: string): string {
  if (/(?:[sxz]|[cs]h)$/i.test(name)) return `${name}es`;
  return /[^aeiou]y$/i.test(name) ? `${name.slice(0, -1)}ies` : `${name}s`;
}
