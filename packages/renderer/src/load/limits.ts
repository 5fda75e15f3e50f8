/** All limits of the input. Beyond them is INPUT_TOO_LARGE or YAML_ALIAS_BOMB, never a slow or crashed process. */
export const loadLimits = {
  /** One file, or stdin. */
  fileBytesMax: 64 * 1024 * 1024,
  /**
   * One document for the general YAML parser, which needs about half a second and 30 MB per MiB.
   * JSON and the plain block style of `kubectl get -o yaml` have faster parsers and no such limit.
   */
  generalCharactersMax: 8 * 1024 * 1024,
  /** Documents in one file. */
  documentsMax: 100_000,
  /** The number of values after expanding all aliases of a document. */
  aliasedValuesMax: 100_000,
  /** Nesting of maps and lists. */
  depthMax: 64,
  keysPerMapMax: 10_000,
  /** One broken line causes many errors below it; more than these do not help. */
  errorsPerDocumentMax: 20,
} as const;
