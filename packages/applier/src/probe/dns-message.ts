/** The record types of a Service's name. */
const recordTypes = { A: 1, AAAA: 28 } as const;
export type RecordType = keyof typeof recordTypes;

const headerBytes = 12;
const classInternet = 1;
/** RFC 1035, section 4.1.1: "recursion desired". */
const flagsQuery = 0x0100;

/** The answer codes of RFC 1035, section 4.1.1, by number. */
const codes = ['NOERROR', 'FORMERR', 'SERVFAIL', 'NXDOMAIN', 'NOTIMP', 'REFUSED'];

/**
 * Makes a query for one name (RFC 1035, section 4.1).
 * @param id matches the answer to the query
 * @param name without an empty label; the config has checked it
 */
export function dnsQuestion(id: number, name: string, type: RecordType): Buffer {
  const header = Buffer.alloc(headerBytes);
  header.writeUInt16BE(id, 0);
  header.writeUInt16BE(flagsQuery, 2);
  header.writeUInt16BE(1, 4);
  const labels = name
    .replace(/\.$/, '')
    .split('.')
    .flatMap((label) => [Buffer.from([label.length]), Buffer.from(label, 'latin1')]);
  const end = Buffer.from([0, 0, recordTypes[type], 0, classInternet]);
  return Buffer.concat([header, ...labels, end]);
}

/** The parts of an answer that a probe needs. */
interface DnsAnswer {
  /** Such as `NOERROR`. */
  readonly code: string;
  readonly answers: number;
}

/**
 * Reads an answer: whether it belongs to the query, its code and its number of records.
 * @returns undefined for other messages, which are ignored, as a resolver would
 */
export function readDnsAnswer(message: Buffer, question: Buffer): DnsAnswer | undefined {
  if (message.length < question.length || message.readUInt16BE(0) !== question.readUInt16BE(0)) return undefined;
  const flags = message.readUInt16BE(2);
  const isAnswer = (flags & 0x8000) !== 0;
  // Servers may change the case of names, RFC 1035 section 2.3.3.
  const queryOf = (bytes: Buffer): string => bytes.toString('latin1', headerBytes, question.length).toLowerCase();
  if (!isAnswer || message.readUInt16BE(4) !== 1 || queryOf(message) !== queryOf(question)) return undefined;
  const code = flags & 0x000f;
  return { code: codes[code] ?? `code ${code}`, answers: message.readUInt16BE(6) };
}
