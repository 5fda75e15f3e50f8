/** A text in a code span. Nothing in it ends the span or the cell of a table that it stands in. */
export function code(text: string): string {
  return `\`${text.replaceAll('`', "'").replaceAll('|', '\\|').replaceAll(/\s+/g, ' ')}\``;
}

/** A text as itself: no mark-up, no link, no mention of a person. */
export function plain(text: string): string {
  return text
    .replaceAll(/\s+/g, ' ')
    .replaceAll(/[\\`*_{}[\]<>|#~]/g, (character) => `\\${character}`)
    .replaceAll('://', '\\://')
    .replaceAll('@', '@\u200B');
}
