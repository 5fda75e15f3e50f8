import { fillFrom } from './fill.ts';

const hostVariable = /\$\{(host)\.([A-Za-z]+)\}/g;

/** The machine's values in one family. */
export interface HostValues {
  /** `${host.nodePortAddresses}` */
  readonly nodePortAddresses?: readonly string[];
  /** Whether `nf_conntrack_tcp_be_liberal` is not 0. */
  readonly tcpBeLiberal?: boolean;
}

/**
 * The rule that a machine with `nf_conntrack_tcp_be_liberal` leaves out, so that INVALID packets pass. kube-proxy decides it at its start
 * (`NewProxier` in `pkg/proxy/iptables/proxier.go`).
 */
export const invalidDrop = '-A KUBE-FORWARD -m conntrack --ctstate INVALID -j DROP';

/** Whether the result of `fillHost` depends on the machine. */
export function dependsOnHost(text: string): boolean {
  return text.includes('${host.') || text === invalidDrop;
}

/** Fills in `${host.*}`: one line, one per address of the machine, or none. */
export function fillHost(text: string, host: HostValues): readonly string[] {
  if (!dependsOnHost(text)) return [text];
  if (text === invalidDrop) return host.tcpBeLiberal ? [] : [text];
  return fillFrom(text, hostVariable, (_, name) => (name === 'nodePortAddresses' ? host.nodePortAddresses : undefined));
}
