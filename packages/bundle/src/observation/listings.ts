import { UnreadText } from './nft-text/unread-text.ts';

/** Listings for readers, as tickets have them, in the form of those that tools read. */

/**
 * `ipset save`, or `ipset list`.
 * @returns lines of `ipset save`
 * @throws UnreadText for another text, or a set of which entries are missing
 */
export function setLines(text: string): readonly string[] {
  const lines = text.split('\n');
  if (lines.some((line) => line.startsWith('Name: '))) return listedSets(lines);
  const odd = lines.findIndex((line) => line.trim() !== '' && !/^(?:create|add) \S+ \S/.test(line));
  if (odd >= 0) throw new UnreadText(lineText(lines[odd]), odd + 1);
  return lines;
}

interface ListedSet {
  readonly name: string;
  readonly line: number;
  readonly fields: Map<string, string>;
  readonly members: string[];
}

function listedSets(lines: readonly string[]): readonly string[] {
  const sets: ListedSet[] = [];
  let isMember = false;
  for (const [at, line] of lines.entries()) {
    const [, key = '', value = ''] = /^([A-Z][A-Za-z ]*):(?: (.*))?$/.exec(line) ?? [];
    const set = sets.at(-1);
    if (key === 'Name') {
      sets.push({ name: value, line: at + 1, fields: new Map(), members: [] });
      isMember = false;
    } else if (line.trim() === '') continue;
    else if (set && isMember) set.members.push(line);
    else if (set && key === 'Members') isMember = true;
    else if (set && key !== '') set.fields.set(key, value);
    else throw new UnreadText(lineText(line), at + 1);
  }
  return sets.flatMap(savedSet);
}

function savedSet({ name, line, fields, members }: ListedSet): readonly string[] {
  const count = fields.get('Number of entries');
  if (count !== undefined && Number(count) !== members.length)
    throw new UnreadText(`set ${name} has ${count} entries, and ${members.length} are listed`, line);
  const type = fields.get('Type');
  if (type === undefined) throw new UnreadText(`set ${name} has no type`, line);
  return [
    `create ${name} ${type} ${fields.get('Header') ?? ''}`.trim(),
    ...members.map((member) => `add ${name} ${member}`),
  ];
}

const address = /^(?:[0-9.]+|\[[0-9a-f:.]+\]):\d+$/;

/**
 * `ipvsadm -S -n`, or `ipvsadm -L -n`.
 * @returns lines of `ipvsadm -S -n`
 * @throws UnreadText for another text, and for names where addresses should be
 */
export function serverLines(text: string): readonly string[] {
  const lines = text.split('\n').map((line) => line.trimEnd());
  const saved = lines.some((line) => line.startsWith('IP Virtual Server')) ? listedServers(lines) : lines;
  for (const [at, line] of saved.entries()) {
    if (line.trim() === '') continue;
    const found = /^\s*-[Aa] (?:(?:-t|-u|--sctp-service) (\S+)|-f \d+)(?: .+)?$/.exec(line);
    if (!found) throw new UnreadText(lineText(line), at + 1);
    const [, place] = found;
    if (place !== undefined && !address.test(place))
      throw new UnreadText(`${place} is no address with a port: save it with -n`, at + 1);
  }
  return saved;
}

const protocols: Readonly<Record<string, string>> = { TCP: '-t', UDP: '-u', SCTP: '--sctp-service', FWM: '-f' };
const methods: Readonly<Record<string, string>> = { Masq: '-m', Route: '-g', Tunnel: '-i' };

/** Line by line, so that a number of a line is that of the listing. */
function listedServers(lines: readonly string[]): readonly string[] {
  let server = '';
  return lines.map((line, at) => {
    if (line === '' || /^(?:IP Virtual Server|Prot |\s+-> RemoteAddress)/.test(line)) return '';
    const [, protocol = '', place = '', scheduler = '', flags = ''] =
      /^(TCP|UDP|SCTP|FWM) +(\S+) +(\S+)(?: +(\S.*))?$/.exec(line) ?? [];
    if (protocol !== '') {
      server = `${protocols[protocol]} ${place}`;
      return `-A ${server} -s ${scheduler} ${flags.replace(/^persistent (\d+)/, '-p $1')}`.trimEnd();
    }
    const [, real = '', method = '', weight = ''] = /^ +-> (\S+) +(\w+) +(\d+) +\d+ +\d+$/.exec(line) ?? [];
    const how = methods[method];
    if (server === '' || how === undefined) throw new UnreadText(lineText(line), at + 1);
    return `-a ${server} -r ${real} ${how} -w ${weight}`;
  });
}

const lineText = (line = ''): string => `it has the line ${JSON.stringify(line.trim().slice(0, 100))}`;
