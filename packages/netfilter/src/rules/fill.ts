/**
 * Replaces variables in a line: one line, several where a value is a list, none where it is empty or absent.
 * @param form matches a variable, with its owner and its name as groups; global
 * @param look the value of a variable
 */
export function fillFrom(
  text: string,
  form: RegExp,
  look: (owner: string, name: string) => string | number | readonly string[] | undefined,
): readonly string[] {
  let lines: string[] = [text];
  const done = new Set<string>();
  for (const [whole, owner, name] of text.matchAll(form) as Iterable<[string, string, string]>) {
    if (done.has(whole)) continue;
    done.add(whole);
    const value = look(owner, name);
    const list =
      value === undefined || value === '' ? [] : Array.isArray(value) ? (value as string[]) : [String(value)];
    // A function, because `$&` in a text would be expanded.
    lines = lines.flatMap((line) => list.map((item) => line.replaceAll(whole, () => item)));
  }
  return lines;
}
