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
type DnsAnswer =
  | {
      /** Such as `NOERROR`. */
      readonly code: string;
      /** Records of the type that was asked for. */
      readonly records: number;
    }
  | { readonly malformed: string };

/**
 * Reads an answer: whether it belongs to the query, its code and its number of records. Every record must be well-formed: a server that
 * sends anything else serves no client.
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
  const records = countRecords(message, question);
  return typeof records === 'string' ? { malformed: records } : { code: codes[code] ?? `code ${code}`, records };
}

/**
 * Reads all records behind the question (RFC 1035, sections 4.1.3 and 4.1.4).
 * @returns the number of answers of the type and class of the question, or what is malformed
 */
function countRecords(message: Buffer, question: Buffer): number | string {
  const wanted = question.readUInt16BE(question.length - 4);
  const answers = message.readUInt16BE(6);
  const all = answers + message.readUInt16BE(8) + message.readUInt16BE(10);
  let records = 0;
  let at = question.length;
  for (let index = 0; index < all; index++) {
    const fields = endOfName(message, at);
    if (fields === undefined) return `the name of record ${index + 1} is invalid`;
    const data = fields + fieldBytes;
    if (data > message.length) return `it ends in record ${index + 1} of ${all}`;
    const type = message.readUInt16BE(fields);
    const length = message.readUInt16BE(data - 2);
    at = data + length;
    if (at > message.length) return `record ${index + 1} has ${length} bytes, and ${message.length - data} follow`;
    const expected = dataBytes[type];
    if (expected !== undefined && length !== expected)
      return `record ${index + 1} has ${length} bytes, and an address has ${expected}`;
    if (type === typeAlias && endOfName(message, data) !== at) return `the alias in record ${index + 1} is invalid`;
    if (index < answers && type === wanted && message.readUInt16BE(fields + 2) === classInternet) records++;
  }
  return at === message.length ? records : `${message.length - at} bytes follow its last record`;
}

/** Type, class, time to live and length of a record, between its name and its data. */
const fieldBytes = 10;
/** CNAME. */
const typeAlias = 5;
/** The length of an address, by its type. */
const dataBytes: Readonly<Record<number, number>> = { [recordTypes.A]: 4, [recordTypes.AAAA]: 16 };
/** A whole name with its length bytes: RFC 1035, section 3.1. */
const nameBytesMax = 255;

/**
 * Where a name ends. Pointers must lead to an earlier place than the part that has them, so no name is endless.
 * @returns undefined for a name that is invalid, or not inside of the message
 */
function endOfName(message: Buffer, start: number): number | undefined {
  let end: number | undefined;
  let bytes = 1;
  for (let at = start, from = start; at < message.length; ) {
    const length = message[at] as number;
    if (length === 0) return end ?? at + 1;
    if (length < 0x40) {
      bytes += length + 1;
      if (bytes > nameBytesMax) return undefined;
      at += length + 1;
      continue;
    }
    if (length < 0xc0 || at + 1 >= message.length) return undefined;
    end ??= at + 2;
    const target = message.readUInt16BE(at) & 0x3fff;
    if (target < headerBytes || target >= from) return undefined;
    at = from = target;
  }
  return undefined;
}
