import { addressIn } from './tests.ts';
import type { LiveTables } from './tables.ts';

/** Where packets are translated or refused, as `tcp 10.96.0.10 80`; of a port of the node, without an address: `tcp  30080`. */
export function placesIn({ tables }: LiveTables): ReadonlySet<string> {
  const found = new Set<string>();
  for (const { chains } of tables)
    for (const { rules } of chains.values())
      for (const { isProxys, key, text } of rules()) {
        if (!isProxys) continue;
        if (key !== undefined) found.add(key);
        else for (const place of nodePortIn(text)) found.add(place);
      }
  return found;
}

/** A rule of a port alone: `-A KUBE-NODEPORTS -p tcp … --dport 30080`. */
function nodePortIn(text: string): readonly string[] {
  if (!/^-A [A-Z]/.test(text) || / -d /.test(text)) return [];
  const [, protocol] = / -p (tcp|udp|sctp) /.exec(text) ?? [];
  const [, port] = / --dport (\d+)(?: |$)/.exec(text) ?? [];
  return protocol === undefined || port === undefined ? [] : [`${protocol}  ${port}`];
}

/** `tcp 10.96.0.10 80`, from a virtual server's key `10.96.0.10:80/TCP`. */
export function placeOfServer(key: string): string | undefined {
  const [, host = '', port = '', protocol = ''] = /^(.*):(\d+)\/(TCP|UDP|SCTP)$/.exec(key) ?? [];
  const address = addressIn(host);
  return address && `${protocol.toLowerCase()} ${address.text} ${port}`;
}
