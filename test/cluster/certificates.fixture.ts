import { generateKeyPairSync, type KeyObject, sign } from 'node:crypto';

/** A private key with its certificate, both as PEM. */
export interface KeyPair {
  readonly key: string;
  readonly certificate: string;
}

export interface CertificateAuthority extends KeyPair {
  /** A certificate of this authority for addresses, by their bytes; without one for 127.0.0.1. */
  issue(name: string, notAfter: Date, ...addresses: readonly (readonly number[])[]): KeyPair;
  /** A certificate for 127.0.0.1 with a beginning. */
  issueFrom(notBefore: Date, name: string, notAfter: Date): KeyPair;
}

// The DER that an X.509 certificate needs (RFC 5280, section 4.1): node:crypto signs but does not build certificates.

function der(tag: number, ...contents: readonly Buffer[]): Buffer {
  const body = Buffer.concat(contents);
  return Buffer.concat([Buffer.from([tag, ...sizeOf(body.length)]), body]);
}
/** In as few bytes as possible: strict readers of DER refuse more. */
function sizeOf(length: number): readonly number[] {
  if (length < 0x80) return [length];
  return length < 0x100 ? [0x81, length] : [0x82, length >> 8, length & 0xff];
}
const sequence = (...contents: readonly Buffer[]): Buffer => der(0x30, ...contents);
const octets = (content: Buffer): Buffer => der(0x04, content);
const bits = (content: Buffer): Buffer => der(0x03, Buffer.from([0]), content);
const oid = (...bytes: readonly number[]): Buffer => der(0x06, Buffer.from(bytes));
const yes = der(0x01, Buffer.from([0xff]));

const ecdsaWithSha256 = sequence(oid(0x2a, 0x86, 0x48, 0xce, 0x3d, 0x04, 0x03, 0x02));
const commonName = oid(0x55, 0x04, 0x03);
/** basicConstraints, critical: a certificate authority. */
const isAuthority = sequence(oid(0x55, 0x1d, 0x13), yes, octets(sequence(yes)));
/** subjectAltName: addresses. */
const forAddresses = (addresses: readonly (readonly number[])[]): Buffer =>
  sequence(oid(0x55, 0x1d, 0x11), octets(sequence(...addresses.map((one) => der(0x87, Buffer.from(one))))));

const nameOf = (name: string): Buffer => sequence(der(0x31, sequence(commonName, der(0x0c, Buffer.from(name)))));

/** GeneralizedTime: `20260101000000Z`. */
function time(date: Date): Buffer {
  return der(0x18, Buffer.from(`${date.toISOString().replaceAll(/[-:T]/g, '').slice(0, 14)}Z`));
}

interface CertificateRequest {
  readonly name: string;
  readonly notBefore?: Date;
  readonly notAfter: Date;
  readonly extension: Buffer;
  readonly publicKey: KeyObject;
  readonly issuer: string;
  readonly issuerKey: KeyObject;
}

let serial = 0;

function certify({
  name,
  notBefore = new Date(0),
  notAfter,
  extension,
  publicKey,
  issuer,
  issuerKey,
}: CertificateRequest): string {
  serial += 1;
  const validity = sequence(time(notBefore), time(notAfter));
  const body = sequence(
    der(0xa0, der(0x02, Buffer.from([2]))),
    der(0x02, Buffer.from([serial])),
    ecdsaWithSha256,
    nameOf(issuer),
    validity,
    nameOf(name),
    publicKey.export({ type: 'spki', format: 'der' }),
    der(0xa3, sequence(extension)),
  );
  const certificate = sequence(body, ecdsaWithSha256, bits(sign('sha256', body, issuerKey)));
  return `-----BEGIN CERTIFICATE-----\n${certificate.toString('base64')}\n-----END CERTIFICATE-----\n`;
}

const pem = (key: KeyObject): string => key.export({ type: 'pkcs8', format: 'pem' });

/** An authority of its own, valid until `notAfter`. */
export function makeAuthority(issuer: string, notAfter: Date): CertificateAuthority {
  const own = generateKeyPairSync('ec', { namedCurve: 'prime256v1' });
  const from = { issuer, issuerKey: own.privateKey };
  const certificate = certify({ ...from, name: issuer, notAfter, extension: isAuthority, publicKey: own.publicKey });
  const issueFrom = (
    notBefore: Date,
    name: string,
    until: Date,
    ...addresses: readonly (readonly number[])[]
  ): KeyPair => {
    const of = addresses.length > 0 ? addresses : [[127, 0, 0, 1]];
    const { publicKey, privateKey } = generateKeyPairSync('ec', { namedCurve: 'prime256v1' });
    const wanted = { ...from, name, notBefore, notAfter: until, extension: forAddresses(of), publicKey };
    return { key: pem(privateKey), certificate: certify(wanted) };
  };
  return {
    key: pem(own.privateKey),
    certificate,
    issueFrom,
    issue: (name, until, ...addresses) => issueFrom(new Date(0), name, until, ...addresses),
  };
}
