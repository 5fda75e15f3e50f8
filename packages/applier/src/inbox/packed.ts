import { deflateRawSync, inflateRawSync } from 'node:zlib';
import type { TextSource } from '@sluice/bundle';
import { limits } from '../limits.ts';

/** Typical contents of Service files, as a dictionary for compression. */
const usual = Buffer.from(`\
# endpoint http 10.244.0.10:8080 node-0000 zone-0
*filter
-A KUBE-EXTERNAL-SERVICES -m comment --comment "ns/svc:http has no endpoints" -m addrtype --dst-type LOCAL -j REJECT
*nat
:KUBE-EXT- - [0:0]
:KUBE-SVC- - [0:0]
:KUBE-SEP- - [0:0]
-A KUBE-NODEPORTS -m comment --comment ns/svc:http -m tcp -p tcp --dport 30080 -j KUBE-EXT-
-A KUBE-SERVICES -m comment --comment "ns/svc:http cluster IP" -m udp -p udp -d 10.96.0.10 --dport 53 -j KUBE-SVC-
-A KUBE-SERVICES -m comment --comment "ns/svc:http cluster IP" -m tcp -p tcp -d 10.96.0.10 --dport 80 -j KUBE-SVC-
 --dport 80 ! -s \${profile.clusterCIDR} -j KUBE-MARK-MASQ
-A KUBE-SVC- -m comment --comment "ns/svc:http -> 10.244.0.10:8080" -m statistic --mode random --probability 0.2000000000 -j KUBE-SEP-
:8080" -m statistic --mode random --probability 0.2500000000 -j KUBE-SEP-
:8080" -m statistic --mode random --probability 0.3333333333 -j KUBE-SEP-
:8080" -m statistic --mode random --probability 0.5000000000 -j KUBE-SEP-
:8080" -j KUBE-SEP-
-A KUBE-SEP- -m comment --comment ns/svc:http -s 10.244.0.10 -j KUBE-MARK-MASQ
-A KUBE-SEP- -m comment --comment ns/svc:http -m tcp -p tcp -j DNAT --to-destination 10.244.0.10:8080
COMMIT
`);

/** Files of a bundle have a few kilobytes. A higher level saves little more. */
const compression = { level: 1, memLevel: 4, windowBits: 13, dictionary: usual } as const;

/**
 * A text that is kept compressed to a seventh of its size. Files of a bundle are read once, when they change, and kept, so that later
 * readers get what was hashed, whatever happens to the file: 28 MB of 10,000 Services become 4 MB. Large files are not compressed: other
 * users' files must not cost time.
 */
export class PackedText implements TextSource {
  readonly key: string;
  readonly isInMemory: boolean;
  /** The text, or its compressed bytes, one character for each. */
  readonly #kept: string;

  /** @param digest of the bytes */
  constructor(bytes: Buffer, digest: string) {
    this.key = digest;
    this.isInMemory = bytes.length > limits.packedBytesMax;
    this.#kept = this.isInMemory ? bytes.toString('utf8') : deflateRawSync(bytes, compression).toString('latin1');
  }

  /** Decompressed on each call, unless the file is large. */
  get text(): string {
    return this.isInMemory
      ? this.#kept
      : inflateRawSync(Buffer.from(this.#kept, 'latin1'), { dictionary: usual }).toString('utf8');
  }
}
