import { join } from 'node:path';
import type { Format } from '@sluice/cli';
import { type Problem, refusal } from '@sluice/netfilter';
import {
  certificateLimits,
  isOperatorName,
  makeCertificate,
  type ParityCertificate,
  parityNamespace,
  printCertificate,
} from '@sluice/bundle';
import { replaceFile } from '@sluice/renderer/emit/file.ts';
import { exitCodes } from '@sluice/renderer/exit.ts';
import { signText } from '../evidence/ssh-keygen.ts';
import { readReport } from '../input/parity-reports.ts';
import { Stopped, writing } from '@sluice/renderer/commands/failure/failure.ts';
import { printDocument, reportProblems } from '@sluice/renderer/commands/output/output.ts';
import { print } from '@sluice/renderer/commands/output/progress.ts';

interface CertifyOptions {
  readonly output: Format;
  readonly key: string;
  readonly accept?: readonly string[];
  readonly by?: string;
  readonly hours: number;
  readonly out: string;
}

/** `sluice certify`: signs the result of `sluice parity`, if it is one that a node may be moved on. */
export function certifyCommand(
  file: string,
  { output, key, accept = [], by = '', hours, out }: CertifyOptions,
): number {
  if (accept.length > 0 && !isOperatorName(by)) throw new Stopped(unnamed);
  const parity = readReport(file);
  const terms = { accepted: accept, by, nowMs: Date.now(), seconds: hours * 3600 };
  const certificate = makeCertificate(parity, terms);
  if (typeof certificate === 'string') {
    reportProblems([notCertified(file, certificate)]);
    printDocument(output, 'Certification', { file: null, node: parity.node, certificate: null });
    return exitCodes.different;
  }
  const path = write(out, certificate, key);
  if (output === 'text') print(`${path}: ${describe(certificate)}\n`);
  printDocument(output, 'Certification', { file: path, node: parity.node, certificate });
  return exitCodes.done;
}

/** The signature first: a certificate that is there is complete. */
function write(out: string, certificate: ParityCertificate, key: string): string {
  const path = join(out, `${certificate.node}.parity.json`);
  const text = printCertificate(certificate);
  const signed = signText(text, key, parityNamespace);
  if ('why' in signed) throw new Stopped(unsigned(path, signed.why));
  writing(path, () => {
    replaceFile(`${path}.sig`, signed.signature);
    replaceFile(path, text);
  });
  return path;
}

function describe({ result, coverage, exceptions, expires }: ParityCertificate): string {
  const how = result === 'equivalent' ? 'equivalent' : `equivalent but for ${exceptions.length} accepted differences`;
  return `${how} in ${coverage.cases} cases; valid until ${expires}`;
}

const unnamed = refusal(
  'USAGE_INVALID',
  'Cannot accept a difference: it has no name of an operator',
  `Pass --by NAME, at most ${certificateLimits.byCharactersMax} printable characters`,
);

const notCertified = (file: string, why: string): Problem =>
  refusal(
    'CERTIFICATE_INVALID',
    `Cannot certify ${file}: ${why}`,
    'Mend the bundle or the node and compare again, or accept a difference by its id with --accept ID --by NAME',
  );

const unsigned = (path: string, why: string): Problem =>
  refusal(
    'CERTIFICATE_INVALID',
    `Cannot sign ${path}: ${why}`,
    'Nothing was written. Pass --key with a private key, or with a public key whose private key is in the agent',
  );
