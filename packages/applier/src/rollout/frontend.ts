/** What clients of a Service connect to. */
export interface Frontend {
  readonly protocol: string;
  /** undefined: a node port at any address of the machine; with a length behind it, such as `192.0.2.0/24`: at those in a network. */
  readonly address: string | undefined;
  readonly port: number;
}

/**
 * The frontend whose packets a rule is for; undefined where it is for others, or for all but some.
 * @param rule as it stands in a table, or without its chain
 */
export function frontendOf(rule: string): Frontend | undefined {
  const protocol = / -p (\S+) /.exec(rule)?.[1];
  const port = / --dport (\d+) /.exec(rule)?.[1];
  if (protocol === undefined || port === undefined || rule.includes(' ! ')) return undefined;
  const address = / -d (\S+) /.exec(rule)?.[1]?.replace(/\/(32|128)$/, '');
  return { protocol, address, port: Number(port) };
}
