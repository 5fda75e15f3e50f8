import { readEndpoint, readNumber } from '../rules/parts.ts';
import { printEndpoint, type RuleError, type TransportProtocol } from '../rules/rule.ts';
import {
  type IpvsTimeouts,
  type RealServer,
  type Scheduler,
  type SchedulerFlag,
  schedulerFlags,
  isScheduler,
  schedulers,
  type VirtualServer,
} from './values.ts';

/** A line of an `.ipvs` file as a value. */
export type ServerLine =
  | { readonly kind: 'virtual'; readonly server: Omit<VirtualServer, 'real'> }
  | { readonly kind: 'real'; readonly of: Name; readonly server: RealServer }
  | { readonly kind: 'timeouts'; readonly timeouts: IpvsTimeouts };

type Name = Pick<VirtualServer, 'family' | 'protocol' | 'address' | 'port'>;

/** Kubernetes allows a session affinity of up to a day; ipvsadm allows up to a month for all time-outs. */
const persistenceMax = 86_400;
const timeoutMax = 31 * 86_400;
const weightMax = 65_535;

const protocols: ReadonlyMap<string, TransportProtocol> = new Map([
  ['-t', 'tcp'],
  ['-u', 'udp'],
  ['--sctp-service', 'sctp'],
]);

/**
 * Reads one line for `ipvsadm -R`. The grammar is closed and has one order of words. The forwarding method is masquerading; host
 * names are not accepted.
 * @param text without guard and variables
 * @returns the line, or why it is not valid
 */
export function readServerLine(text: string): ServerLine | RuleError {
  const words = text.split(' ');
  if (words[0] === '--set') return readTimeouts(words);
  const name = readName(words[1] ?? '', words[2] ?? '');
  if (typeof name === 'string') return { error: name };
  if (words[0] === '-A') return readVirtual(name, words.slice(3));
  if (words[0] === '-a') return readReal(name, words.slice(3));
  return { error: 'the line starts with none of -A, -a and --set' };
}

/** Converts the name of a virtual server in a guard, `10.96.0.10:80/TCP`, to the form of lines: `-t 10.96.0.10:80`. */
export function serverNameOf(key: string): string | undefined {
  const slash = key.lastIndexOf('/');
  const option = [...protocols].find(([, name]) => name.toUpperCase() === key.slice(slash + 1))?.[0];
  return slash < 1 || option === undefined ? undefined : `${option} ${key.slice(0, slash)}`;
}

function readName(option: string, text: string): Name | string {
  const protocol = protocols.get(option);
  const endpoint = readEndpoint(text);
  if (!protocol) return `${JSON.stringify(option)} is none of -t, -u and --sctp-service`;
  if (!endpoint || printEndpoint(endpoint.address, endpoint.port) !== text)
    return `${JSON.stringify(text)} is not an address with a port in canonical form`;
  return { family: endpoint.family, protocol, address: endpoint.address, port: endpoint.port };
}

function readVirtual(name: Name, words: readonly string[]): ServerLine | RuleError {
  const rest = [...words];
  const option = (flag: string): string | undefined => (rest[0] === flag ? rest.splice(0, 2)[1] : undefined);
  const scheduler = option('-s') ?? '';
  const seconds = option('-p');
  const mask = option('-M');
  const flags = option('-b')?.split(',') ?? [];
  const persistence = seconds === undefined ? undefined : readNumber(seconds, 1, persistenceMax);
  if (!isScheduler(scheduler)) return { error: `-s takes one of ${schedulers.join(', ')}` };
  if (seconds !== undefined && persistence === undefined) return { error: `-p takes 1 to ${persistenceMax} seconds` };
  if (mask !== (persistence !== undefined && name.family === 'ipv6' ? '128' : undefined))
    return { error: '-M 128 is required with -p in IPv6, and invalid otherwise' };
  if (!areFlags(flags, scheduler)) return { error: `-b takes the sorted flags of scheduler ${scheduler}` };
  if (rest.length > 0) return { error: `${rest[0]} is not valid at this position` };
  return { kind: 'virtual', server: { ...name, scheduler, ...(persistence ? { persistence } : {}), flags } };
}

function areFlags(flags: readonly string[], scheduler: Scheduler): flags is readonly SchedulerFlag[] {
  return flags.every(
    (flag, index) =>
      Object.hasOwn(schedulerFlags, flag) &&
      schedulerFlags[flag as SchedulerFlag] === scheduler &&
      (index === 0 || (flags[index - 1] as string) < flag),
  );
}

function readReal(of: Name, words: readonly string[]): ServerLine | RuleError {
  const [r, text = '', m, w, weightText = '', ...rest] = words;
  if (r !== '-r' || m !== '-m' || w !== '-w' || rest.length > 0)
    return { error: 'a real server is not of the form -r ADDRESS:PORT -m -w WEIGHT' };
  const endpoint = readEndpoint(text);
  const weight = readNumber(weightText, 0, weightMax);
  if (!endpoint || endpoint.family !== of.family || printEndpoint(endpoint.address, endpoint.port) !== text)
    return { error: `${JSON.stringify(text)} is not an ${of.family} address with a port in canonical form` };
  if (weight === undefined) return { error: `-w takes 0 to ${weightMax}` };
  return { kind: 'real', of, server: { address: endpoint.address, port: endpoint.port, weight } };
}

function readTimeouts(words: readonly string[]): ServerLine | RuleError {
  const [tcp, tcpFin, udp] = words.slice(1).map((word) => readNumber(word, 0, timeoutMax));
  if (words.length !== 4 || tcp === undefined || tcpFin === undefined || udp === undefined)
    return { error: `--set takes three numbers of seconds, each at most ${timeoutMax}` };
  return { kind: 'timeouts', timeouts: { tcp, tcpFin, udp } };
}
