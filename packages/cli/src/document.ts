/** The part of a problem that an error document contains. */
interface ErrorProblem {
  readonly code: string;
  readonly level: string;
  readonly message: string;
  readonly hint: string;
}

/** A document for programs, as every command prints with `-o json`: its version, its kind, and the fields of that kind. */
export function document(kind: string, fields: object): string {
  return `${JSON.stringify({ apiVersion: 'sluice.dev/v1alpha1', kind, ...fields }, undefined, 2)}\n`;
}

/** For a command that fails without a problem. */
const unnamed: ErrorProblem = {
  code: 'INTERNAL',
  level: 'error',
  message: 'The command failed without a problem of its own',
  hint: 'Read its messages on standard error',
};

/**
 * The document of a failed command.
 * @param problems all problems of the command; the first one of level error is `error`
 */
export function errorDocument(problems: readonly ErrorProblem[]): string {
  const { code, message, hint } = problems.find(({ level }) => level === 'error') ?? problems[0] ?? unnamed;
  return document('Error', { error: { code, message, hint }, problems });
}
