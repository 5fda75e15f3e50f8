/**
 * Sets of endpoints that made a probe fail, by Service (`EndpointChange.key`). Early endpoint sync leaves them out, so that they go in
 * only with a release in probation. They outlive the process.
 */
export interface DeclinedEndpoints {
  read(): ReadonlyMap<string, string>;
  /** @throws StateError if the disk does not take it; this process remembers it nevertheless */
  write(declined: ReadonlyMap<string, string>): void;
}

/** The networks of pods and the addresses of the Nodes of the last confirmed release. They outlive the process. */
export interface ReleasedNetworks {
  read(): readonly string[];
  /** @throws StateError if the disk does not take it; this process remembers them nevertheless */
  write(networks: readonly string[]): void;
}
