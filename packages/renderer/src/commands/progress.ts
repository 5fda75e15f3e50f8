/** Says on one line of a terminal what is being done; an empty text clears the line. Silent where nobody watches. */
export function progress(what: string): void {
  if (process.stderr.isTTY) process.stderr.write(`\r\u001B[K${what}${what === '' ? '' : ' …'}`);
}
