/** The parts of an entry of a set: `10.96.0.10,tcp:80,198.51.100.0/24`. */
interface EntryParts {
  /** An address; in a set of ports, a port. */
  readonly first: string;
  /** Empty where the set has none. */
  readonly protocol: string;
  readonly port: string;
  /** An address or a network of sources; empty where the set has none. */
  readonly source: string;
}

export function readEntry(entry: string): EntryParts {
  const [first = '', transport = '', source = ''] = entry.split(',');
  const [protocol = '', port = ''] = transport.split(':');
  return { first, protocol, port, source };
}
