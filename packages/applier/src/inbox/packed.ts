import { deflateRawSync, inflateRawSync } from 'node:zlib';
import type { TextSource } from '@sluice/bundle';
import { limits } from '../limits.ts';

/** What files of Services are made of: a packed text names the places here that it has in common with these. */
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

/** Files of a bundle have some kilobytes. A higher level saves little more of these. */
const compression = { level: 1, memLevel: 4, windowBits: 13, dictionary: usual } as const;

/**
 * A text of which a seventh of its size is kept. Files of a bundle are read once, when they changed, and kept so that whoever needs one
 * later has what was hashed, whatever became of it on the disk: 28 MB of 10,000 Services are 4 MB so. A large one is kept as it is: what
 * others put there must not cost time.
 */
export class PackedText implements TextSource {
  readonly key: string;
  readonly isInMemory: boolean;
  /** The text, or its packed bytes, one character for each. */
  readonly #kept: string;

  /** @param digest of the bytes */
  constructor(bytes: Buffer, digest: string) {
    this.key = digest;
    this.isInMemory = bytes.length > limits.packedBytesMax;
    this.#kept = this.isInMemory ? bytes.toString('utf8') : deflateRawSync(bytes, compression).toString('latin1');
  }

  /** Made anew each time, but for a large one. */
  get text(): string {
    return this.isInMemory
      ? this.#kept
      : inflateRawSync(Buffer.from(this.#kept, 'latin1'), { dictionary: usual }).toString('utf8');
  }
}
