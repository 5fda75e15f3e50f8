/** A problem, as far as a document of an error needs it. */
export interface ErrorProblem {
  readonly code: string;
  readonly level: string;
  readonly message: string;
  readonly hint: string;
}

/** A document for programs, as every command prints with `-o json`: its version, its kind, and the fields of that kind. */
export function document(kind: string, fields: object): string {
  return `${JSON.stringify({ apiVersion: 'sluice.dev/v1alpha1', kind, ...fields }, undefined, 2)}\n`;
}

/** For a command that fails and has named no problem. */
const unnamed: ErrorProblem = {
  code: 'INTERNAL',
  level: 'error',
  message: 'The command did not end as it should',
  hint: 'Standard error says why',
};

/**
 * The document of a command that could not do its work.
 * @param problems everything that was said; the first error among them is `error`
 */
export function errorDocument(problems: readonly ErrorProblem[]): string {
  const { code, message, hint } = problems.find(({ level }) => level === 'error') ?? problems[0] ?? unnamed;
  return document('Error', { error: { code, message, hint }, problems });
}
