import { isProblem } from '@sluice/bundle';
import type { Problem } from '@sluice/netfilter';
import type { Format } from '@sluice/cli';
import { exitCodes } from '@sluice/renderer/exit.ts';
import { readWholeRelease, withoutSignature } from '@sluice/renderer/load/whole-release.ts';
import { RegistryClient } from '@sluice/transport/registry/client.ts';
import { pushRelease } from '@sluice/transport/content/push.ts';
import { readReference } from '@sluice/transport/registry/reference.ts';
import { reading, Stopped } from '@sluice/renderer/commands/failure/failure.ts';
import { print, progress, say } from '@sluice/renderer/commands/output/progress.ts';
import { atRegistry } from '../failure/at-registry.ts';
import { printDocument, reportProblems } from '@sluice/renderer/commands/output/output.ts';

interface PushOptions {
  readonly output: Format;
  readonly plainHttp?: boolean;
}

/** `sluice push`: sends a release to a registry under a tag. Prints the reference by digest, for `sluice pull`. */
export async function pushCommand(dir: string, spec: string, { plainHttp, output }: PushOptions): Promise<number> {
  const reference = readReference(spec);
  if (reference?.tag === undefined || reference.digest !== undefined) throw new Stopped(noTag(spec));
  progress(`reading ${dir}`);
  const whole = reading(dir, () => readWholeRelease(dir));
  if (isProblem(whole)) throw new Stopped(whole);
  const { release, files } = whole;
  progress(`sending to ${reference.registry}`);
  const client = new RegistryClient(reference, { plainHttp: plainHttp === true, env: process.env });
  const { tag } = reference;
  const pushed = await atRegistry(() => pushRelease(client, release, files, tag));
  reportProblems(withoutSignature(dir, files, 'release', 'push it again: only the signature is sent'));
  const { layers, sent, attachments } = pushed;
  say(
    `${spec}: release ${release.serial} of ${release.cluster}, ${layers} layers, ${sent} of them new; ${attachments} signatures and openings\n`,
  );
  const pushedAs = `${reference.registry}/${reference.repository}@${pushed.digest}`;
  if (output === 'text') print(`${pushedAs}\n`);
  const { serial, cluster } = release;
  printDocument(output, 'PushResult', { reference: pushedAs, cluster, serial, layers, sent, attachments });
  return exitCodes.done;
}

function noTag(spec: string): Problem {
  return {
    code: 'REGISTRY_INVALID',
    level: 'error',
    message: `Cannot push to ${JSON.stringify(spec)}: it is not of the form REGISTRY/REPOSITORY:TAG`,
    hint: 'Write it as registry.example.com/sluice/shop:42, with the registry',
  };
}
