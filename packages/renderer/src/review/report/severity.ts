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

/** What happens, as the predicate of a Service. */
export const severityLabels = {
  'last-endpoint': 'loses its last endpoint',
  opens: 'opens to the outside',
  'source-address': 'changes its source address',
  connections: 'breaks connections or sessions',
  closes: 'no longer answers somewhere',
  moves: 'moves connections',
  adds: 'adds inside the cluster',
  settings: 'changes settings',
} as const satisfies Record<Severity, string>;

/** The same of several. */
export const severityPlurals = {
  'last-endpoint': 'lose their last endpoint',
  opens: 'open to the outside',
  'source-address': 'change their source address',
  connections: 'break connections or sessions',
  closes: 'no longer answer somewhere',
  moves: 'move connections',
  adds: 'are added inside the cluster',
  settings: 'change settings',
} as const satisfies Record<Severity, string>;

/** In a word or two, where there is no room for more. */
export const severityWords = {
  'last-endpoint': 'no endpoint',
  opens: 'opens',
  'source-address': 'source address',
  connections: 'connections',
  closes: 'closes',
  moves: 'moves',
  adds: 'adds',
  settings: 'settings',
} as const satisfies Record<Severity, string>;

/** Negative when `a` is worse. */
export const compareSeverity = (a: Severity, b: Severity): number => severities.indexOf(a) - severities.indexOf(b);
