/** The address, protocol and port at which a Service answers. */
export interface ServiceFrontend {
  readonly protocol: string;
  /** undefined: a node port at any address of the node; a network such as `192.0.2.0/24`: at its addresses in that network. */
  readonly address: string | undefined;
  readonly port: number;
}

/**
 * The frontend whose packets a rule matches.
 * @param rule as in a table, or without its chain
 * @returns undefined if it has no protocol and port, or a negated match
 */
export function frontendOf(rule: string): ServiceFrontend | undefined {
  const protocol = / -p (\S+) /.exec(rule)?.[1];
  const port = / --dport (\d+) /.exec(rule)?.[1];
  if (protocol === undefined || port === undefined || rule.includes(' ! ')) return undefined;
  const address = / -d (\S+) /.exec(rule)?.[1]?.replace(/\/(32|128)$/, '');
  return { protocol, address, port: Number(port) };
}
