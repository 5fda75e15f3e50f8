/** What several sentences have in common, and what is each one's own. */
export interface SharedText {
  /** With `…` in place of what differs. */
  readonly sentence: string;
  /** In the order of the sentences. */
  readonly own: readonly string[];
}

/** Sentences that share fewer words say different things. */
const sharedWordsMin = 4;

/**
 * Finds the words with which sentences begin and end alike.
 * @returns undefined for one sentence, and for sentences that share too little
 */
export function sharedText(sentences: readonly string[]): SharedText | undefined {
  if (sentences.length < 2) return undefined;
  const all = sentences.map((sentence) => sentence.split(' '));
  const shortest = Math.min(...all.map(({ length }) => length));
  const [first] = all as [string[], ...string[][]];
  let start = 0;
  while (start < shortest && all.every((words) => words[start] === first[start])) start++;
  let end = 0;
  while (end < shortest - start && all.every((words) => words.at(-1 - end) === first.at(-1 - end))) end++;
  if (start + end < sharedWordsMin) return undefined;
  const own = all.map((words) => words.slice(start, words.length - end).join(' '));
  const middle = own.every((text) => text === '') ? [] : ['…'];
  return { sentence: [...first.slice(0, start), ...middle, ...first.slice(first.length - end)].join(' '), own };
}
