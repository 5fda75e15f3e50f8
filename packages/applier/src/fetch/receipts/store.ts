import { readingGit } from '@sluice/cli';
import type { GitCaller } from '@sluice/transport/receipts/git.ts';
import { openReceipts, type ReceiptAccess } from '@sluice/transport/receipts/open.ts';
import { readReceiptSpec } from '@sluice/transport/receipts/spec.ts';
import type { ReceiptStore } from '@sluice/transport/receipts/store.ts';
import type { SluicedConfig } from '../../config.ts';

type Push = NonNullable<SluicedConfig['receipts']['push']>;

/** How a node reaches its store. */
export interface NodeAccess extends Omit<ReceiptAccess, 'git'> {
  /** Added to the environment of git, such as credentials, which must not be in its arguments. */
  readonly gitEnv?: Readonly<Record<string, string>>;
}

/**
 * The store that `receipts.push` of `sluiced.yaml` names.
 * @throws RegistryFailure for a URL that is not permitted
 */
export function receiptStoreOf(push: Push, { gitEnv = {}, http, env }: NodeAccess): ReceiptStore {
  const text = specText(push);
  const spec = readReceiptSpec(text);
  if (typeof spec === 'string') throw new Error(`the config was read with ${text}: ${spec}`);
  // No config of the machine or of a user, no hooks, no prompts, and no protocol but that of the URL.
  const git: GitCaller = (directory, args) => {
    const call = readingGit(directory, ['-c', 'http.followRedirects=false', ...args]);
    const protocol = spec.kind === 'git' ? new URL(spec.url).protocol.slice(0, -1) : 'none';
    return { ...call, env: { ...call.env, GIT_ALLOW_PROTOCOL: protocol, ...gitEnv } };
  };
  return openReceipts(spec, { http: { ...http, plainHttp: 'oci' in push && push.oci.plainHttp }, env, git });
}

/** As `sluice fleet --from` takes it. */
function specText(push: Push): string {
  if ('oci' in push) return `oci://${push.oci.reference}`;
  if ('https' in push) return push.https.url;
  return 'git' in push ? `git+${push.git.url}` : push.dir.path;
}
