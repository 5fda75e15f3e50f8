/** What a command that judges found: one document, printed as text, Markdown, SARIF or JUnit (`print.ts`). */
export interface Findings {
  /** `sluice policy` */
  readonly command: string;
  /** Of the program. */
  readonly version: string;
  /** Everything that may be found; SARIF and code scanning explain findings by it. */
  readonly rules: readonly FindingRule[];
  /** In the order in which they are read. */
  readonly findings: readonly Finding[];
  /** What was looked at and is no finding. */
  readonly examined: readonly Examined[];
  /** Lines of text behind the findings; the last ones say what was examined and the verdict. */
  readonly closing: readonly string[];
  /** The verdict in a sentence. */
  readonly verdict: string;
  /** Of commands that are about one thing of several, `parity/node-a/`: code scanning takes two runs with one id for the same. */
  readonly id?: string;
  /** What other formats have besides the results: the properties of a run of SARIF. */
  readonly properties?: object;
  /** What Markdown has behind its table, folded. */
  readonly folded?: { readonly summary: string; readonly items: readonly string[] };
}

export interface FindingRule {
  readonly id: string;
  readonly title: string;
  readonly reason?: string;
  /** Its level unless a config says otherwise; `none`: off. */
  readonly level?: FindingLevel | 'none';
}

type FindingLevel = 'error' | 'warning' | 'note';

export interface Finding {
  /** The id of one of the rules. */
  readonly rule: string;
  readonly level: FindingLevel;
  /** What belongs together: the class of a JUnit test. */
  readonly group: string;
  /** The Service, flow or node that it is about. */
  readonly about: string;
  /** One line, without the place and what it is about. */
  readonly message: string;
  /** The first line of the text, with place and level. */
  readonly head: string;
  /** The lines below it: evidence, reasons, advice. */
  readonly details: readonly string[];
  /** The file is relative to the current directory; the line counts from 1. */
  readonly place?: { readonly file: string; readonly line: number };
  /** Why it fails nothing. */
  readonly excused?: { readonly as: 'waived' | 'documented'; readonly why: string };
  /** What makes it the same finding although its line moves. */
  readonly identity: string;
}

/** What was looked at: a passed test of JUnit, or a skipped one where it could not be judged. */
export interface Examined {
  readonly group: string;
  readonly name: string;
  readonly text: string;
  readonly isJudged: boolean;
}

export const findingsFormats = ['text', 'markdown', 'sarif', 'junit'] as const;
export type FindingsFormat = (typeof findingsFormats)[number];
