import { causes } from './causes.ts';
import type { Diagnosis, Finding } from './diagnosis.ts';

/**
 * A diagnosis as the document of findings that every command which judges prints for tools (`@sluice/cli`). A cause, certain or likely, is
 * an error; what could not be examined was not judged.
 * @param program `sluiced`, and its version
 */
export function diagnosisFindings(
  program: { readonly name: string; readonly version: string },
  { subject, cause, others, notes, unread }: Diagnosis,
) {
  const found = [...(cause ? [cause] : []), ...others, ...notes];
  const verdict = cause ? `${subject}: ${causes[cause.code]}` : `${subject}: no cause found`;
  const gaps = unread.map(({ what, because }) => ({
    group: subject,
    name: `not read: ${what}`,
    text: because,
    isJudged: false,
  }));
  return {
    command: `${program.name} doctor`,
    version: program.version,
    rules: Object.entries(causes).map(([id, title]) => ({ id, title })),
    findings: found.map((one) => findingOf(subject, one)),
    examined: [...(cause ? [] : [{ group: subject, name: verdict, text: '', isJudged: true }]), ...gaps],
    closing: [...unread.map(({ what, because }) => `not read ${what}: ${because}`), verdict],
    verdict,
  };
}

function findingOf(subject: string, { code, certainty, about = subject, evidence, fix }: Finding) {
  return {
    rule: code,
    level: certainty === 'note' ? ('note' as const) : ('error' as const),
    group: subject,
    about,
    message: `${certainty === 'likely' ? 'probably ' : ''}${causes[code]}`,
    head: `${about}: ${causes[code]} [${code}]`,
    details: [...evidence, fix],
    identity: `${code} ${about}`,
  };
}
