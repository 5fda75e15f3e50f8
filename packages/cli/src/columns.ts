/**
 * Aligns a table for a terminal: two spaces between columns, no spaces at the end of a line.
 * @param rows the cells of each line; the first one has the heads, and a cell beyond them is not aligned
 * @param numbers whether all columns but the first hold numbers, which stand to the right
 * @returns a line for each row, each with its line end
 */
export function columns(rows: readonly (readonly string[])[], numbers = false): string {
  const widths = (rows[0] ?? []).map((_, at) => Math.max(...rows.map((row) => row[at]?.length ?? 0)));
  const aligned = (cell: string, at: number): string =>
    numbers && at > 0 ? cell.padStart(widths[at] ?? 0) : cell.padEnd(widths[at] ?? 0);
  return rows.map((row) => `${row.map(aligned).join('  ').trimEnd()}\n`).join('');
}
