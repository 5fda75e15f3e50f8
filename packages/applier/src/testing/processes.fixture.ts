import { readdirSync, readFileSync } from 'node:fs';

/** The processes that a process has started and whose arguments have this text; for tests only. */
export function childrenOf(parent: number, text: string): readonly number[] {
  const of = (id: string, file: string): string => {
    try {
      return readFileSync(`/proc/${id}/${file}`, 'utf8');
    } catch {
      return '';
    }
  };
  return readdirSync('/proc')
    .filter((id) => /^\d+$/.test(id) && new RegExp(`\\) \\S ${parent} `).test(of(id, 'stat')))
    .filter((id) => of(id, 'cmdline').includes(text))
    .map(Number);
}
