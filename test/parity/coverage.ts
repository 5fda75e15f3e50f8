import type { AnswerCounts } from './outcomes.ts';
import type { Question } from './questions.ts';

/** The questions so far: frontends by sources, with the protocols, the number of questions, and their outcomes. */
export class Coverage {
  readonly #cells = new Map<string, Map<string, { protocols: Set<string>; questions: number }>>();
  readonly #endings = new Map<string, number>();

  note(questions: readonly Question[], answers: readonly AnswerCounts[]): void {
    questions.forEach(({ frontend, from, protocol, family }, at) => {
      const row = this.#cells.get(frontend) ?? new Map<string, { protocols: Set<string>; questions: number }>();
      const cell = row.get(from) ?? { protocols: new Set(), questions: 0 };
      cell.protocols.add(`${protocol}${family === 'IPv4' ? '4' : '6'}`);
      cell.questions += 1;
      this.#cells.set(frontend, row.set(from, cell));
      for (const words of answers[at]?.keys() ?? [])
        this.#endings.set(endingOf(words), (this.#endings.get(endingOf(words)) ?? 0) + 1);
    });
  }

  /** A table of frontends by sources, each with its questions and protocols, and a line of outcomes. */
  toString(): string {
    const rows = [...this.#cells].toSorted(([a], [b]) => (a < b ? -1 : 1));
    const lines = rows.flatMap(([frontend, row]) => [
      frontend,
      ...[...row].map(
        ([from, { questions, protocols }]) =>
          `  ${from.padEnd(18)} ${String(questions).padStart(6)}  ${[...protocols].toSorted().join(' ')}`,
      ),
    ]);
    const endings = [...this.#endings].toSorted(([a], [b]) => (a < b ? -1 : 1));
    return [...lines, `endings: ${endings.map(([ending, count]) => `${ending} ${count}`).join(', ')}`].join('\n');
  }
}

function endingOf(words: string): string {
  if (words === 'reject' || words === 'drop') return words;
  const masqueraded = words.includes(' as ') ? ', masqueraded' : '';
  return `${words.startsWith('node ') ? 'the node' : 'an address'}${masqueraded}`;
}
