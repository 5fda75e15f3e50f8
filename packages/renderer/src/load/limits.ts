/** Every bound on what is read. Beyond one of them stands INPUT_TOO_LARGE or YAML_ALIAS_BOMB, never a slow or fallen process. */
export const loadLimits = {
  /** One file, or stdin. */
  fileBytesMax: 64 * 1024 * 1024,
  /**
   * One document for the general YAML parser, which takes about half a second and 30 MB per MiB.
   * JSON and the plain block style of `kubectl get -o yaml` are read by faster parsers and may fill the file.
   */
  generalCharactersMax: 8 * 1024 * 1024,
  /** Documents in one file. */
  documentsMax: 100_000,
  /** Values that the aliases of a document stand for, aliases inside them expanded too. */
  aliasedValuesMax: 100_000,
  /** Nesting of maps and lists. */
  depthMax: 64,
  keysPerMapMax: 10_000,
  /** One broken line makes many errors of the parser below it: more than these help nobody. */
  errorsPerDocumentMax: 20,
} as const;
