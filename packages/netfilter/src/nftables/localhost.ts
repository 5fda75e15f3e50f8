import { localhostAddress, localhostListenerAddress, type NftTableOptions } from './table.ts';

/** Who answers at a loopback address: the table, `sluiced` for the table, no program, or what else listens there. */
type AtLocalhost = 'table' | 'listener' | 'refused' | 'left';

/**
 * What becomes of a node port of the node itself at a loopback address, as `printNftTable` has it.
 * @param address of 127.0.0.0/8, or ::1
 */
export function atLocalhost(options: NftTableOptions, address: string, protocol: string): AtLocalhost {
  const { localhost, localhostListener } = options;
  if (localhost === undefined) return 'left';
  if (address === localhostListenerAddress)
    return localhostListener === true && protocol === 'tcp' ? 'listener' : 'refused';
  if (localhost === 'refused') return 'refused';
  if (address === localhostAddress) return 'table';
  return protocol === 'tcp' ? 'left' : 'refused';
}
