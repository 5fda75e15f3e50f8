/** All limits of the input. Beyond them is INPUT_TOO_LARGE or YAML_ALIAS_BOMB, never a slow or crashed process. */
export const loadLimits = {
  /** One file, or stdin. */
  fileBytesMax: 64 * 1024 * 1024,
  /**
   * Lines, keys and values of one YAML document. Each needs about 0.3 µs and 0.2 kB while the document is read; a file of 64 MiB, as
   * `kubectl get -o yaml` writes it, has 2.5 million. JSON has its own parser and no such limit.
   */
  yamlTokensMax: 4_000_000,
  /** Characters of YAML that are parsed again because of the columns of closing brackets: about 3 s. */
  reparsedCharactersMax: 64 * 1024 * 1024,
  /** Documents in one file. */
  documentsMax: 100_000,
  /** The number of values after expanding all aliases of a document. */
  aliasedValuesMax: 100_000,
  /** Nesting of maps and lists. */
  depthMax: 64,
  keysPerMapMax: 10_000,
  /**
   * Characters of one key or text of YAML, with its indentation and its line ends: etcd limits objects to 1.5 MiB. The value of a longer
   * one, with copies of it, took up to twelve times its size.
   */
  textCharactersMax: 4 * 1024 * 1024,
  /** One broken line causes many errors below it; more than these do not help. */
  errorsPerDocumentMax: 20,
} as const;
