import { canonicalAddress } from '../rules/address.ts';

/** What an operator asks about: a Service, an address with or without a port, or nothing. */
export type ExaminedTarget =
  | { readonly kind: 'all' }
  | { readonly kind: 'service'; readonly service: string; readonly port?: string }
  | { readonly kind: 'address'; readonly address: string; readonly port?: number };

const label = '[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?';
const serviceForm = new RegExp(`^(${label}/${label})(?::(${label}))?$`);

/**
 * Reads `shop/web`, `shop/web:http`, `10.96.0.10`, `10.96.0.10:80`, `fd00::10` or `[fd00::10]:80`.
 * @returns undefined for anything else
 */
export function readTarget(text: string | undefined): ExaminedTarget | undefined {
  if (text === undefined) return { kind: 'all' };
  const service = serviceForm.exec(text);
  if (service?.[1] !== undefined)
    return { kind: 'service', service: service[1], ...(service[4] === undefined ? {} : { port: service[4] }) };
  const plain = canonicalAddress(text);
  if (plain !== undefined) return { kind: 'address', address: plain };
  const [, six, four, port = ''] = /^(?:\[([0-9a-fA-F:.]+)\]|([0-9.]+)):(\d{1,5})$/.exec(text) ?? [];
  const address = canonicalAddress(six ?? four ?? '');
  if (address === undefined || Number(port) < 1 || Number(port) > 65_535) return undefined;
  return { kind: 'address', address, port: Number(port) };
}

/** As an operator writes it. */
export function printTarget(target: ExaminedTarget): string {
  if (target.kind === 'all') return 'all Services';
  if (target.kind === 'service') return target.port === undefined ? target.service : `${target.service}:${target.port}`;
  if (target.port === undefined) return target.address;
  return target.address.includes(':') ? `[${target.address}]:${target.port}` : `${target.address}:${target.port}`;
}
