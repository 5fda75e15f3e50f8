import { floors, mayImport } from './imports.ts';

/** Boxes and those that each may import, in one package or wing. */
type Boxes = Readonly<Record<string, readonly string[]>>;

/** The pictures of packages/README.md: title → boxes. */
export const pictures: Readonly<Record<string, Boxes>> = {
  'all packages': packages(),
  netfilter: floors['netfilter/src/']!,
  bundle: floors['bundle/src/']!,
  renderer: placesOf('renderer'),
  'renderer/render': floors['renderer/src/render/']!,
  transport: floors['transport/src/']!,
  delivery: placesOf('delivery'),
  review: floors['review/src/']!,
  applier: placesOf('applier'),
  'applier/apply': floors['applier/src/apply/']!,
};

function packages(): Boxes {
  const nameOf = (place: string): string => place.split('/')[0]!;
  const edges = Object.entries(mayImport).map(([from, to]) => [nameOf(from), to.map(nameOf)] as const);
  const names = new Set(edges.map(([name]) => name));
  return Object.fromEntries(
    [...names].map((name) => {
      const targets = edges.flatMap(([from, to]) => (from === name ? to : []));
      const below =
        name === 'netfilter' || name === 'cli' ? [] : ['netfilter', ...(name === 'bundle' ? [] : ['bundle'])];
      return [name, [...new Set([...targets, ...below])].filter((target) => target !== name)];
    }),
  );
}

/** The folders of a package, without the files beside them, which every folder may use. */
function placesOf(name: string): Boxes {
  const beside = ['main', 'program', 'exit', 'memory', 'message', 'limits', 'paces', 'config', 'command-error'];
  const isBox = (place: string): boolean =>
    place.startsWith(`${name}/`) && !beside.includes(place.slice(name.length + 1));
  const short = (place: string): string => place.slice(name.length + 1);
  return Object.fromEntries(
    Object.entries(mayImport)
      .filter(([place]) => isBox(place))
      .map(([place, to]) => [short(place), to.filter(isBox).map(short)]),
  );
}

/**
 * Draws boxes in rows, so that each may import boxes of rows below it alone.
 * @throws Error where imports lead back to their beginning
 */
export function drawn(boxes: Boxes): string {
  const rows: string[][] = [];
  const rowOf = (name: string, above: readonly string[] = []): number => {
    if (above.includes(name)) throw new Error(`imports lead back: ${[...above, name].join(' → ')}`);
    return Math.max(0, ...boxes[name]!.map((target) => 1 + rowOf(target, [...above, name])));
  };
  for (const name of Object.keys(boxes).toSorted()) (rows[rowOf(name)] ??= []).push(name);
  const line = (names: readonly string[], [left, fill, right]: readonly string[]): string =>
    names.map((name) => `${left}${fill === ' ' ? ` ${name} ` : fill!.repeat(name.length + 2)}${right}`).join('  ');
  return rows
    .toReversed()
    .flatMap((names) => [line(names, ['┌', '─', '┐']), line(names, ['│', ' ', '│']), line(names, ['└', '─', '┘'])])
    .join('\n');
}

/** packages/README.md. */
export const boxesPage = (): string =>
  `# The boxes of each package

A box may import boxes of rows below it alone. The pictures are drawn from [the tables](../test/imports.ts) to which
\`test/architecture.test.ts\` holds the sources; [ARCHITECTURE.md](../ARCHITECTURE.md) says what is in each box.
${Object.entries(pictures)
  .map(([title, boxes]) => `\n## \`${title}\`\n\n\`\`\`\n${drawn(boxes)}\n\`\`\`\n`)
  .join('')}`;
