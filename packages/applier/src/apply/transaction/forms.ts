import { compareText, type Family, frontendElements, type NftFrontend, type TableName } from '@sluice/netfilter';

/** Options whose values are part of the form. */
const named: ReadonlySet<string> = new Set([
  '-A',
  '-j',
  '-g',
  '-m',
  '-p',
  '--ctstate',
  '--src-type',
  '--dst-type',
  '--reject-with',
]);

/** A rule without the parts that differ between Services: `KUBE-SVC-NPX46M4PTMTKRN6Y` becomes `KUBE-SVC`, values are left out. */
export function formOf(family: Family, table: TableName, rule: string): string {
  const words = rule.match(/"[^"]*"|\S+/g) ?? [];
  const kept = words.filter((word, index) => word === '!' || word.startsWith('-') || named.has(words[index - 1] ?? ''));
  return [
    family,
    table,
    ...kept.map((word) => word.replace(/^((?:KUBE|SLU|SLUICE)-[A-Z]{1,3})-[A-Z2-7]{16}(\.[0-9a-z]{2})?$/, '$1')),
  ].join(' ');
}

/** The kind of a list's chain in mode nftables, or of a verdict that leads to one: without lengths, times and owners. */
export const listForm = (name: string): string => name.replaceAll(/-[0-9a-f]{16}$|\d+/g, '');

/** A frontend of mode nftables without addresses, ports and lengths: the sets that have its elements, and its verdicts. */
export function frontendForm(frontend: NftFrontend): string {
  const { serving, lists, shared } = frontendElements(frontend, 'a');
  const verdicts = serving.map(({ set, value }) => `${set} ${listForm(value)}`);
  const sets = [...lists, ...shared].map(({ set }) => set);
  return [...new Set([...verdicts, ...sets])].toSorted(compareText).join();
}
