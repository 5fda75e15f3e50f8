/** What a change does to clients, worst first. The list is closed; docs/review.md describes each. */
export const severities = [
  'last-endpoint',
  'opens',
  'source-address',
  'connections',
  'closes',
  'moves',
  'adds',
  'settings',
] as const;
export type Severity = (typeof severities)[number];

/** What happens: as the predicate of a Service, as that of several, and in a word or two. */
const phrases: Readonly<Record<Severity, readonly [one: string, several: string, word: string]>> = {
  'last-endpoint': ['loses its last endpoint', 'lose their last endpoint', 'no endpoint'],
  opens: ['opens to the outside', 'open to the outside', 'opens'],
  'source-address': ['changes its source address', 'change their source address', 'source address'],
  connections: ['breaks connections or sessions', 'break connections or sessions', 'connections'],
  closes: ['no longer answers somewhere', 'no longer answer somewhere', 'closes'],
  moves: ['moves connections', 'move connections', 'moves'],
  adds: ['adds inside the cluster', 'are added inside the cluster', 'adds'],
  settings: ['changes settings', 'change settings', 'settings'],
};
const phrasesAt = (at: 0 | 1 | 2): Readonly<Record<Severity, string>> =>
  Object.fromEntries(Object.entries(phrases).map(([severity, of]) => [severity, of[at]])) as Record<Severity, string>;

/** As the predicate of a Service. */
export const severityLabels = phrasesAt(0);
/** As the predicate of several. */
export const severityPlurals = phrasesAt(1);
/** Where there is no room for more. */
export const severityWords = phrasesAt(2);

/** Negative when `a` is worse. */
export const compareSeverity = (a: Severity, b: Severity): number => severities.indexOf(a) - severities.indexOf(b);
