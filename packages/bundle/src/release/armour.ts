import { releaseLimits, releaseNamespace, type SignatureNamespace } from '../names.ts';
import { WireReader } from './wire.ts';

/** The unverified content of a signature file; `ssh-keygen` verifies it. */
interface SignatureClaim {
  /** The public key, in base64, as in `allowed_signers`. */
  readonly key: string;
  readonly keyType: string;
}

const begin = '-----BEGIN SSH SIGNATURE-----\n';
const end = '-----END SSH SIGNATURE-----\n';

/**
 * Reads one armoured SSH signature (`PROTOCOL.sshsig`, OpenSSH). `ssh-keygen -Y verify` ignores data after the first armour of a file, so
 * trailing data is refused here.
 * @returns the key that it claims, or the error in words
 */
export function readSignature(text: string, namespace: SignatureNamespace = releaseNamespace): SignatureClaim | string {
  if (text.length > releaseLimits.signatureBytesMax)
    return `it is larger than ${releaseLimits.signatureBytesMax} bytes`;
  if (!text.startsWith(begin) || !text.endsWith(end)) return 'it is not exactly one SSH signature';
  const body = text.slice(begin.length, -end.length);
  if (!/^(?:[A-Za-z0-9+/]{1,76}\n)*[A-Za-z0-9+/]{1,76}={0,2}\n$/.test(body)) return 'its armour is not base64';
  const blob = Buffer.from(body.replaceAll('\n', ''), 'base64');
  if (blob.toString('base64') !== body.replaceAll('\n', '')) return 'its base64 is not in canonical form';
  return readBlob(blob, namespace);
}

/** `MAGIC_PREAMBLE`, version, public key, namespace, reserved, hash, signature: section 3 of `PROTOCOL.sshsig`. */
function readBlob(blob: Buffer, wanted: SignatureNamespace): SignatureClaim | string {
  const reader = new WireReader(blob);
  if (reader.take(6)?.toString('latin1') !== 'SSHSIG') return 'it lacks the preamble SSHSIG';
  if (reader.number() !== 1) return 'its version is unknown';
  const [key, namespace, reserved, hash, signature] = Array.from({ length: 5 }, () => reader.text());
  if (key === undefined || signature === undefined || !reader.atEnd) return 'it is truncated or has trailing data';
  if (namespace?.toString('latin1') !== wanted)
    return `it is for namespace ${JSON.stringify(namespace?.toString('latin1'))}, not ${wanted}`;
  if (reserved?.length !== 0) return 'its reserved field is not empty';
  if (!['sha256', 'sha512'].includes(hash?.toString('latin1') ?? '')) return 'its hash is neither sha256 nor sha512';
  const keyType = new WireReader(key).text()?.toString('latin1');
  return keyType === undefined ? 'its key is truncated' : { key: key.toString('base64'), keyType };
}
