import type { ParityReport } from '@sluice/bundle';

/** What parity said of a mistake. */
export type Said = 'found' | 'undecided' | 'silent';

export interface Judged {
  readonly dump: string;
  readonly kind: string;
  readonly what: string;
  readonly said: Said;
  /** What packets showed; undefined: nothing. */
  readonly shown: string | undefined;
  readonly report: ParityReport;
}

/**
 * Whether only what takes many clients or hours differs, of frontends with affinity: shares, of which each of the few clients that ask
 * shows one endpoint, and whether a client that comes again is remembered for longer.
 */
function isHidden({ differences }: ParityReport): boolean {
  const sure = (outcome: string): string => outcome.replaceAll(/ \d+(?:\.\d+)? %|, not renewed/g, '');
  return differences.every(
    ({ observed, desired }) => observed.includes('affinity ') && sure(observed) === sure(desired),
  );
}

/** Whether only the order of two tables of one priority is not known, which the kernel does not tell: packets show one of both. */
const isOfOrder = ({ coverage: { notCovered } }: ParityReport): boolean =>
  notCovered.every(({ matters, what }) => !matters || what === 'the order of rules');

/** Whether a rule of another program refuses only what no Service answers: it does so whatever the proxy is, and parity leaves it out. */
const isBesideServices = (kind: string, shown: string | undefined): boolean =>
  kind.startsWith('foreign') && / unassigned port [^|]*→ (?:drop|reject) ×\d+$/.test(shown ?? '');

type Column = `${'differs' | 'same'} ${Said}` | 'refused' | 'not here';

/** Counts of mistakes by kind. */
export class Tally {
  readonly #counts = new Map<string, Map<Column, number>>();
  readonly #wrong: string[] = [];

  note(kind: string, column: Column): void {
    const counts = this.#counts.get(kind) ?? new Map<Column, number>();
    this.#counts.set(kind, counts.set(column, (counts.get(column) ?? 0) + 1));
  }

  judged({ dump, kind, what, said, shown, report }: Judged): void {
    this.note(kind, `${shown === undefined ? 'same' : 'differs'} ${said}`);
    const isExcused = said === 'found' ? isHidden(report) : isOfOrder(report);
    const isMissed = said === 'silent' && !isBesideServices(kind, shown);
    const isWrong = shown === undefined ? said !== 'silent' && !isExcused : isMissed;
    if (!isWrong && said !== 'undecided') return;
    const [claim] = report.differences;
    const gaps = report.coverage.notCovered.flatMap(({ matters, what: rule, why }) =>
      matters ? [`${rule}: ${why}`] : [],
    );
    const text = [
      `${dump}, ${kind}: ${what}`,
      `packets: ${shown ?? 'no difference'}`,
      `parity: ${said} ${claim ? JSON.stringify(claim) : gaps.slice(0, 3).join('; ')}`,
    ].join('\n  ');
    console.log(`${isWrong ? 'wrong' : 'undecided'}: ${text}`);
    if (isWrong) this.#wrong.push(text);
  }

  /** Mistakes that packets show and parity does not, and the other way round. */
  wrong(): readonly string[] {
    return this.#wrong;
  }

  /** A table in Markdown. */
  toString(): string {
    const columns: readonly Column[] = [
      'differs found',
      'differs undecided',
      'differs silent',
      'same silent',
      'same undecided',
      'same found',
      'refused',
    ];
    const rows = [...this.#counts].map(([kind, counts]) => [
      kind,
      ...columns.map((one) => String(counts.get(one) ?? 0)),
    ]);
    const sums = columns.map((one) =>
      String([...this.#counts.values()].reduce((sum, counts) => sum + (counts.get(one) ?? 0), 0)),
    );
    return [['kind', ...columns], ...rows, ['all', ...sums]].map((row) => `| ${row.join(' | ')} |`).join('\n');
  }
}
