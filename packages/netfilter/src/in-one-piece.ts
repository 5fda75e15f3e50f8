/** A copy of a text: a part of a text keeps all of it in memory, and a text that was joined keeps its parts. */
export const inOnePiece = (text: string): string => Buffer.from(text).toString();
