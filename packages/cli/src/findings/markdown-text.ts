/** A text in a code span, escaped so that it ends neither the span nor the cell of a table. */
export function code(text: string): string {
  return `\`${text.replaceAll('`', "'").replaceAll('|', '\\|').replaceAll(/\s+/g, ' ')}\``;
}

/** A text as itself: no mark-up, link or mention. */
export function plain(text: string): string {
  return text
    .replaceAll(/\s+/g, ' ')
    .replaceAll(/[\\`*_{}[\]<>|#~]/g, (character) => `\\${character}`)
    .replaceAll('://', '\\://')
    .replaceAll('@', '@\u200B');
}
